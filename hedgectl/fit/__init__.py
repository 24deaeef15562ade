"""The service law of one scope fitted from its log: prefill, decode, slow periods, hiccups, routing."""

from __future__ import annotations

from hedgectl.fit.engine import LogFacts, Refusal, fleet_of, refusals
from hedgectl.fit.service import Fit, fit_service

__all__ = ["Fit", "LogFacts", "Refusal", "fit_service", "fleet_of", "refusals"]
