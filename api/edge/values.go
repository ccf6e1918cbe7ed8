package edge

import "fmt"

// OrNull returns a value for a JSON document: nil, which is null, for the zero value.
func OrNull[T comparable](v T) any {
	var zero T
	if v == zero {
		return nil
	}
	return v
}

// TextOf returns the text of a value of a JSON document; it is empty for null.
func TextOf(v any) string {
	if v == nil {
		return ""
	}
	return fmt.Sprint(v)
}
