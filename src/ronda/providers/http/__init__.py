"""Calling models over HTTP: `endpoint` asks, over a `connection` of the loop's `pool`; `session` is for all the rest."""

from ronda.providers.http.endpoint import Answer, Http, ManyReader, StreamReader, bearer, endpoint

__all__ = ["Answer", "Http", "ManyReader", "StreamReader", "bearer", "endpoint"]
