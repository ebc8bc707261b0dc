"""Which features there are, as text: a name → where its class and its settings stand.

Nothing of a feature is imported to read this table: `ronda serve --help` loads settings only. A feature in the box is loaded
when a setting that it goes by is given; one of an installed package (the entry points `ronda.features`) when the settings name
it, never because it is installed.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec
from msgspec import Struct

from ronda._islands import island_module
from ronda._suggest import did_you_mean
from ronda.errors import BadConfig
from ronda.server.config import ServerConfig
from ronda.server.setting import GROUPS, Row, rows_of

if TYPE_CHECKING:
    from ronda.server.features.contract import Feature

GROUP: Final = "ronda.features"  # of entry points


class FeatureRow(Struct, frozen=True):
    """A feature in the box. `feature` and `settings` are `module:name`, of modules in this folder: its class and its settings'
    Struct. It is made where one of the settings in `when` is not at its default, or a program gives it an object; without any,
    always. One that `is_door` brings addresses that every server has. One that `is_island` is made wherever it is
    installed; where it is not, settings in `when` are refused. Where `leads_group`, its settings are listed before those of
    the core in the same group (--help, docs/settings.md)."""

    name: str
    feature: str
    settings: str = ""
    when: tuple[str, ...] = ()
    is_island: bool = False
    is_door: bool = False
    leads_group: bool = False


class Command(Struct, frozen=True):
    """`ronda NAME …`, which a feature of another package brings. `call` is `module:function`: what was parsed → the exit code."""

    name: str
    call: str
    help: str
    description: str
    add_flags: Callable[[argparse.ArgumentParser], None] = lambda parser: None


# In the order in which they are made, asked and told, but for what `Feature.after` says.
FEATURES: Final[tuple[FeatureRow, ...]] = (
    FeatureRow("chat", "doors.chat:Chat", is_door=True),
    FeatureRow("responses", "doors.responses:Responses", is_door=True),
    FeatureRow("messages", "doors.messages:Messages", is_door=True),
    FeatureRow("mistral", "doors.mistral:Mistral", is_door=True),
    FeatureRow("files", "doors.files:Files", is_door=True),
    FeatureRow("skills", "skills.feature:Skills", settings="skills.settings:SkillSettings", is_door=True),
    FeatureRow("runs", "doors.runs:Runs", is_door=True),
    FeatureRow("mcp_server", "doors.mcp:McpServer", is_door=True),
    FeatureRow("listing", "doors.listing:Listing", is_door=True),
    FeatureRow("transcripts", "doors.transcripts:Transcripts", is_door=True),
    FeatureRow("health", "doors.health:Health", is_door=True),
    FeatureRow("page", "doors.page:Page", is_door=True),
    FeatureRow("prices", "prices.feature:Prices", settings="prices.settings:PriceSettings", when=("prices",)),
    FeatureRow(
        "trusted_proxy",
        "trusted_proxy.feature:TrustedProxy",
        settings="trusted_proxy.settings:TrustedProxySettings",
        when=("trust_user_header", "trust_user_from"),
    ),
    FeatureRow("redact", "redact.feature:Redact", settings="redact.settings:RedactSettings", when=("redact",)),
    FeatureRow("sign_in", "sign_in.feature:SignInPage"),
    FeatureRow("oidc", "oidc.feature:Oidc", settings="oidc.settings:OidcSettings", when=("oidc",)),
    FeatureRow("openapi", "openapi.feature:OpenApi"),
    FeatureRow("system", "system.feature:System"),
    FeatureRow("keys", "keys.feature:Keys"),
    FeatureRow("owners", "owners.feature:Owners"),
    FeatureRow("operate", "operate.feature:Operate"),
    FeatureRow(
        "agents",
        "agents.feature:Agents",
        settings="agents.settings:AgentSettings",
        when=("agents", "agent_tools"),
        leads_group=True,
    ),
    FeatureRow(
        "models",
        "models.feature:NamedModels",
        settings="models.settings:ModelSettings",
        when=("models", "more_models", "upstreams"),
    ),
    FeatureRow(
        "dispatch",
        "dispatch.feature:Dispatch",
        settings="dispatch.settings:DispatchSettings",
        when=("tool_dispatch_url", "tool_dispatch_secret", "dispatch"),
    ),
    FeatureRow("embeddings", "embeddings.feature:Embeddings", settings="embeddings.settings:EmbeddingSettings"),
    FeatureRow(
        "mcp", "mcp.feature:Mcp", settings="mcp.settings:McpSettings", when=("mcp_config", "mcp", "mcp_allow_url")
    ),
    FeatureRow(
        "web",
        "web.feature:Web",
        settings="web.settings:WebSettings",
        when=("enable_search", "search", "search_embedding_model"),
        leads_group=True,
    ),
    FeatureRow(
        "code",
        "code.feature:Code",
        settings="code.settings:CodeSettings",
        when=("enable_code_execution", "enable_shell", "offer"),
        leads_group=True,
    ),
    FeatureRow(
        "request_log",
        "request_log.feature:RequestLog",
        settings="request_log.settings:RequestLogSettings",
        when=("access_log", "access_log_format", "access_log_health"),
    ),
    FeatureRow(
        "app_stream",
        "app_stream.feature:AppStream",
        settings="app_stream.settings:AppSettings",
        when=("app", "images", "page"),
        is_island=True,
    ),
    FeatureRow(
        "traces", "traces.feature:Traces", settings="traces.settings:TracesSettings", when=("otel", "otel_content")
    ),
    FeatureRow("notices", "notices.feature:Notices", settings="notices.settings:NoticesSettings", when=("notices",)),
    FeatureRow(
        "schedules", "schedules.feature:Schedules", settings="schedules.settings:SchedulesSettings", when=("schedules",)
    ),
    FeatureRow("metrics", "metrics.feature:Metrics", settings="metrics.settings:MetricsSettings", when=("metrics",)),
    FeatureRow("rates", "rates.feature:Rates", settings="rates.settings:RateSettings", when=("rates",)),
    FeatureRow("budgets", "budgets.feature:Budgets", settings="budgets.settings:BudgetSettings", when=("budgets",)),
)

Values: TypeAlias = Mapping[str, Any]


def load_object(place: str, load: Callable[[str], Any] = import_module) -> Any:
    """`module:name` → what goes by that name there."""
    module, _, name = place.partition(":")
    return getattr(load(module), name)


def _load(row: FeatureRow, place: str) -> Any:
    """The class of a feature in the box, or its settings. Raises BadConfig for an island that is not installed."""
    return load_object(f"ronda.server.features.{place}", island_module if row.is_island else import_module)


def settings_of(names: tuple[str, ...] = ()) -> tuple[type[Struct], ...]:
    """The settings of all features in the box, and of those of other packages that are named."""
    structs = [struct for row in FEATURES if (struct := settings_struct(row)) is not None]
    known = {row.name for row in FEATURES}
    structs += [
        found.settings for name in names if name not in known and (found := installed(name)).settings is not None
    ]
    return tuple(structs)


def settings_struct(row: FeatureRow) -> type[Struct] | None:
    """None: it has no settings, or is an island that this installation is without."""
    if not row.settings:
        return None
    try:
        struct: type[Struct] = _load(row, row.settings)
    except BadConfig:
        return None
    return struct


def all_rows(names: Iterable[str] = ()) -> tuple[Row, ...]:
    """Every setting of a server, of the core and of features, group by group. `names` are features of other packages."""
    leading = [struct for row in FEATURES if row.leads_group and (struct := settings_struct(row)) is not None]
    others = [struct for struct in settings_of(tuple(names)) if struct not in leading]
    rows = [row for struct in (*leading, ServerConfig, *others) for row in rows_of(struct)]
    groups = list(dict.fromkeys([*GROUPS, *[row.setting.group for row in rows]]))
    return tuple(sorted(rows, key=lambda row: groups.index(row.setting.group)))


def all_values(config: ServerConfig) -> dict[str, Any]:
    """The settings of the core and of features, by their names."""
    parts = (config, *[config.part(struct) for struct in settings_of(config.features)])
    return {row.name: getattr(part, row.name) for part in parts for row in rows_of(type(part))}


def make_config(values: Values) -> ServerConfig:
    """Settings under their names, of the core and of features, → a config. Raises BadConfig for a name that no setting has, and
    msgspec.ValidationError for a value that does not fit."""
    for row in rows_of(ServerConfig):
        if row.setting.stands_for and values.get(row.name) is True:
            values = {**values, **dict.fromkeys(row.setting.stands_for, True)}
    named = values.get("features", ())
    structs = settings_of(tuple([str(name) for name in named]) if isinstance(named, list | tuple) else ())
    owners = {name: struct for struct in structs for name in struct.__struct_fields__}
    parts: dict[type[Struct], dict[str, Any]] = {}
    core: dict[str, Any] = {}
    for name, value in values.items():
        if (owner := owners.get(name)) is not None:
            parts.setdefault(owner, {})[name] = value
        else:
            core[name] = value
    config = msgspec.convert(core, ServerConfig)
    if not parts:
        return config
    return msgspec.structs.replace(config, parts={key: msgspec.convert(given, key) for key, given in parts.items()})


def unknown_setting(name: str, known: Iterable[str], otherwise: str) -> BadConfig:
    """What is said of a name that no setting has."""
    for row in FEATURES:
        if row.is_island and name in row.when:
            try:
                _load(row, row.settings)
            except BadConfig as error:
                return error
    return BadConfig(f"there is no setting {name!r}; {did_you_mean(name, known, otherwise)}")


def doors() -> list[type[Feature]]:
    """The features that bring the addresses of every server, in their order."""
    return [_load(row, row.feature) for row in FEATURES if row.is_door]


def wanted(config: ServerConfig, given: Mapping[str, Any] = MappingProxyType({})) -> list[type[Feature]]:
    """The features that these settings ask for besides the doors, each after those that it names in `after`. `given` are objects
    besides the settings. Raises BadConfig."""
    classes: dict[str, type[Feature]] = {}
    for row in FEATURES:
        if row.is_door:
            continue
        is_wanted = row.name in config.features or _is_wanted(row, config, given)
        if is_wanted or row.is_island:
            try:
                classes[row.name] = _load(row, row.feature)
            except BadConfig:
                if is_wanted:
                    raise
    for name in config.features:
        if name not in classes:
            classes[name] = installed(name)
    return in_order(classes)


def loadable(names: Iterable[str] = ()) -> list[type[Feature]]:
    """All features in the box, switched on or not, and those of other packages that are named. Raises BadConfig."""
    found: list[type[Feature]] = []
    for row in FEATURES:
        try:
            found.append(_load(row, row.feature))
        except BadConfig:  # an island that is not installed
            if not row.is_island:
                raise
    return [*found, *[installed(name) for name in names]]


def _is_wanted(row: FeatureRow, config: ServerConfig, given: Mapping[str, Any]) -> bool:
    if not row.when:
        return True
    if given.get(row.name):
        return True
    struct = settings_struct(row)
    part = None if struct is None else config.parts.get(struct)  # None: nothing was said of it
    return part is not None and any(getattr(part, name) != getattr(type(part)(), name) for name in row.when)


def in_order(classes: Mapping[str, type[Feature]]) -> list[type[Feature]]:
    """As they stand in the table, but each after those that it goes after. Raises BadConfig for a circle."""
    ordered: list[type[Feature]] = []
    under_way: list[str] = []

    def place(name: str) -> None:
        if classes[name] in ordered:
            return
        if name in under_way:
            raise BadConfig(
                f"the features {' → '.join([*under_way, name])} are each made after the other: that cannot be"
            )
        under_way.append(name)
        for before in classes[name].after:
            if before in classes:
                place(before)
        under_way.pop()
        ordered.append(classes[name])

    for name in classes:
        place(name)
    return ordered


def installed(name: str) -> type[Feature]:
    """The feature of an installed package. Raises BadConfig."""
    found = {entry.name: entry for entry in entry_points()}
    if (entry := found.get(name)) is None:
        known = [*[row.name for row in FEATURES], *found]
        hint = did_you_mean(name, known, "a package that has it would name it among its entry points 'ronda.features'")
        raise BadConfig(f"there is no feature {name!r}; {hint}")
    try:
        feature: type[Feature] = entry.load()
    except Exception as error:
        raise BadConfig(f"the feature {name!r} of the package {_package(entry)} cannot be loaded: {error}") from error
    if not getattr(feature, "is_feature", False):
        raise BadConfig(
            f"{entry.value} is no feature: it must be a class made of ronda.server.features.contract.Feature"
        )
    return feature


def entry_points() -> Sequence[Any]:
    from importlib.metadata import entry_points as find  # which is slow to import

    return tuple(find(group=GROUP))


def _package(entry: Any) -> str:
    return "of unknown name" if entry.dist is None else repr(entry.dist.name)
