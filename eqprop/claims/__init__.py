"""The paper's theorems, propositions and statements as checks on any F. One claim a file."""

from eqprop.claims.base import Check, Claim, Finding, Subject
from eqprop.claims.report import Report
from eqprop.claims.verify import CLAIMS, verify, verify_zoo
from eqprop.claims.zoo import SUBJECTS

__all__ = ["CLAIMS", "SUBJECTS", "Check", "Claim", "Finding", "Report", "Subject", "verify", "verify_zoo"]
