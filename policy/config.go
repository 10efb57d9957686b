package policy

// ConfigError is one mistake in the configuration of a policy. Several are joined with errors.Join.
type ConfigError struct {
	Key     string // its path below the policy's config, "rules[0].topic"; empty for the whole
	Problem string
	Hint    string // what to write instead; may be empty
}

// Error names the key, what is wrong with it and, where one is known, what to write instead.
func (e *ConfigError) Error() string {
	text := e.Problem
	if e.Key != "" {
		text = e.Key + ": " + text
	}
	if e.Hint != "" {
		text += " (" + e.Hint + ")"
	}
	return text
}
