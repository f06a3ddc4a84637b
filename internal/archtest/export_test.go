package archtest

// Except is except, for exceptions written as {rule, where, why}.
func Except(found []Violation, list ...[3]string) []Violation {
	var all []exception
	for _, e := range list {
		all = append(all, exception{e[0], e[1], e[2]})
	}
	return except(found, all)
}

// RuleNames are the names of all rules.
func RuleNames() []string {
	var names []string
	for _, r := range rules() {
		names = append(names, r.name)
	}
	return names
}

// CheckRule checks one rule, without exceptions.
var CheckRule = func(name string, t *tree) []Violation {
	for _, r := range rules() {
		if r.name == name {
			return r.check(t)
		}
	}
	return nil
}

// Read is read.
var Read = read
