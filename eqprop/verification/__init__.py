"""The paper's theorems, propositions and statements as checks on any F. One claim a file."""

from eqprop.verification.base import Check, Claim, Finding, Subject
from eqprop.verification.report import Report
from eqprop.verification.run import CLAIMS, verify, verify_zoo
from eqprop.verification.zoo import SUBJECTS

__all__ = ["CLAIMS", "SUBJECTS", "Check", "Claim", "Finding", "Report", "Subject", "verify", "verify_zoo"]
