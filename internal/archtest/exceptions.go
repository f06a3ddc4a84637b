package archtest

// exceptions is every place that may break a rule. Each says why there is no better way.
func exceptions() []exception {
	return []exception{}
}
