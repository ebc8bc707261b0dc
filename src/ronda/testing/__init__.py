"""For tests of agents, yours and ours: a model that says what it was told to, and the contract every journal keeps.

model = ScriptedModel(calls("lookup", q="Paris"), says("Sunny."))
assert invoke_agent(Agent(model, tools=[lookup]), "How is Paris?") == "Sunny."
assert model.heard[1][-1] == …      # what it was sent with the second call

invoke_agent(agent, "How is Paris?", record="paris.jsonl")      # once
replay("paris.jsonl", agent)                                    # always: without a model, a tool or a network
"""

from ronda.agent.cassettes.differences import Difference
from ronda.agent.cassettes.replay_agent import replay, replay_async
from ronda.providers.script import Call, Line, ScriptedModel, calls, fails, says

__all__ = ["Call", "Difference", "Line", "ScriptedModel", "calls", "fails", "replay", "replay_async", "says"]
