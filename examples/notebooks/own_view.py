# %% [markdown]
# # A view of one's own
# A view is one function: a number for every candidate. The posterior weighs all views without labels. This one
# prefers the candidate that shares most words with the others, because people who invent wrong options start from the
# right one.

# %%
import secl
from secl.evidence import CandidateEvidence, Evidence
from secl.posterior.views import VIEWS, View

CENTRAL = "central"


def central(candidates: CandidateEvidence, _evidence: Evidence) -> tuple[float, ...]:
    words = [set(each.lower().split()) for each in candidates.candidates]
    return tuple(float(sum(len(own & other) for other in words) - len(own)) for own in words)


# The prior is what a shared word is worth before anything is seen.
VIEWS[CENTRAL] = View("words shared with the others", prior=0.1, read=central)

# %%
records = secl.ask_all(
    secl.Calibrator.load(
        method="posterior",
        posterior=secl.PosteriorRule(secl.PosteriorSettings().model_copy(update={"views": ("letters", CENTRAL)})),
    ),
    secl.load_stream(["misconceptions"], 16),
)
posterior = records[-1].posterior
print(posterior.weights if posterior is not None else None)
