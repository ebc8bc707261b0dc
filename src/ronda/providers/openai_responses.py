"""Any upstream that speaks the Responses API: OpenAI, Azure, DeepSeek, OpenRouter, vLLM, …"""

from __future__ import annotations

from msgspec import structs

from ronda.core.events import ModelFinished, Preview
from ronda.core.limits import Timeouts
from ronda.core.plan import Options, Plan
from ronda.core.request import ModelRequest
from ronda.drive import Capabilities, Show
from ronda.drive.offload import write_body
from ronda.errors import UpstreamError
from ronda.providers.http import Http, bearer, endpoint
from ronda.providers.http.transport import Routes
from ronda.wire.openai_chat.names import own_names
from ronda.wire.openai_chat.quirks import quirks_at
from ronda.wire.openai_responses import API
from ronda.wire.openai_responses.client_answer import read_plain
from ronda.wire.openai_responses.client_request import Body, body_of, check_options, sends_as_it_is
from ronda.wire.openai_responses.client_stream import Reader
from ronda.wire.openai_responses.failures import is_about_encryption, is_about_seal
from ronda.wire.upstream.errors import error_of
from ronda.wire.upstream.input_files import takes_any_file
from ronda.wire.upstream.native import made_by, maker
from ronda.wire.upstream.projection import Projection
from ronda.wire.upstream.stream import is_event_stream

DEFAULT_URL = "https://api.openai.com/v1"


class OpenAIResponses:
    """`account`: a name for whose key it is, where keys change by themselves; else the key tells."""

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        key: str | None = None,
        timeouts: Timeouts | None = None,
        account: str | None = None,
        routes: Routes | None = None,
    ) -> None:
        self._model = model
        self._home = maker(API, base_url or DEFAULT_URL, account or key)
        url = endpoint(base_url or DEFAULT_URL, "/responses")
        self._http = Http(url, bearer(base_url or "", key), timeouts or Timeouts(), routes, "OPENAI_API_KEY")
        self._quirks = quirks_at(base_url)
        self._encrypted = True  # until the model says that it has no thoughts to encrypt

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            check=self.check,
            enforces_format=self.enforces_format,
            project=self.project,
            takes_addresses=True,
            takes_file=takes_any_file,
            keeps_files=self._quirks.files_are_data,
            hosts_tools=self._quirks.files_are_data,
        )

    def check(self, plan: Plan) -> None:
        """Raises BadRequest for what this API has no words for: to be asked before a run starts."""
        check_options(plan.options)

    def enforces_format(self, options: Options) -> bool:
        """OpenAI's own servers decode under a strict schema. Some go out in another form: those are looked at at the end."""
        answer_format = options.response_format
        if answer_format is None or answer_format.strict is not True or not self._quirks.keeps_forms:
            return False
        return sends_as_it_is(answer_format)

    def project(self, request: ModelRequest) -> Projection:
        """What would be sent, and what was changed for it."""
        body = body_of(request, self._quirks, self._home)
        data = body.write(self._model, request, self._encrypted)
        return self._http.projection(API, data, body.changes.found)

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        body = body_of(request, self._quirks, self._home)
        shown = False

        def watch(previews: list[Preview]) -> bool | None:
            nonlocal shown
            shown = True
            return show(previews)

        while True:
            try:
                return await self._ask(body, request, watch)
            except UpstreamError as error:
                if shown or not self._can_do_without(error, body, request):
                    raise

    def _can_do_without(self, error: UpstreamError, body: Body, request: ModelRequest) -> bool:
        """Whether what this error is about can be left out, and was not before."""
        if self._encrypted and is_about_encryption(error):
            # A name does not tell what is behind it (Azure's are the user's own): the first refusal does.
            self._encrypted = False
            return True
        return is_about_seal(error) and body.leave_seals_out(request)

    async def _ask(self, body: Body, request: ModelRequest, show: Show) -> ModelFinished:
        data = await write_body(request, lambda: body.write(self._model, request, self._encrypted))
        async with self._http.post(data, request.max_bytes) as answer:
            if answer.status != 200:
                raise error_of(await answer.read(), answer.status, answer.retry_after)
            names = own_names(request.tools)
            if not request.stream or not answer.is_stream:  # some servers ignore `stream`
                whole = await answer.read()
                finished = Reader(names).whole(whole).finish() if is_event_stream(whole) else read_plain(whole, names)
            else:
                reader = Reader(names)
                await answer.stream_into(reader, show, request.room)
                finished = reader.finish()
        turn = made_by(finished.turn, self._home)
        return structs.replace(finished, turn=turn, warnings=body.changes.warnings if body.changes.found else ())
