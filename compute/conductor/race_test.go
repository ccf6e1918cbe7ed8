//go:build race

package conductor

const racing = true
