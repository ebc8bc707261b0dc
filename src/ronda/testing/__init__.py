"""For tests of agents, yours and ours: a model that says what it was told to, and the contract every journal keeps.

model = ScriptedModel(calls("lookup", q="Paris"), says("Sunny."))
assert invoke_agent(Agent(model, tools=[lookup]), "How is Paris?") == "Sunny."
assert model.heard[1][-1] == …      # what it was sent with the second call
"""

from ronda.providers.script import Call, Line, ScriptedModel, calls, fails, says

__all__ = ["Call", "Line", "ScriptedModel", "calls", "fails", "says"]
