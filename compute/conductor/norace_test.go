//go:build !race

package conductor

// racing says that the race detector watches: it makes the stories many times as long, so it sees a part of them.
const racing = false
