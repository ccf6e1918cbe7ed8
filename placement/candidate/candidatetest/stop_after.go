package candidatetest

// StopAfter returns a stop function that returns true at its nth call and from then on. It counts its calls.
func StopAfter(n int, calls *int) func() bool {
	return func() bool { *calls++; return *calls >= n }
}
