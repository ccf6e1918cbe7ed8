//go:build race

package conduct

const racing = true
