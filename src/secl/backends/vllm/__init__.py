"""Many machines: existing vLLM servers answer and score, one learner trains and publishes every version to them."""
