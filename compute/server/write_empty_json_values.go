package server

// orNull returns a pointer to a text; nil (null) if it is empty.
func orNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// notNil returns an empty map for nil, so that it prints as {} and not as null.
func notNil[V any](m map[string]V) map[string]V {
	if m == nil {
		return map[string]V{}
	}
	return m
}

// texts converts a list of a string type to strings; the result is never nil.
func texts[T ~string](words []T) []string {
	out := make([]string, 0, len(words))
	for _, w := range words {
		out = append(out, string(w))
	}
	return out
}
