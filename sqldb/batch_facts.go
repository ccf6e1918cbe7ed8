package sqldb

// batchFacts are what functions of Write have read in one transaction of SQLite that several of them share. Only these
// functions can change the database before its COMMIT, so each of them need not read the same again. One function runs
// at a time.
type batchFacts struct{ byName map[string]string }

// Remember keeps a value that was read, for the functions whose transactions share this one's COMMIT. A function calls
// Forget before it changes what the value was read from. If transactions share no COMMIT, Remember does nothing.
func (tx *Tx) Remember(name, value string) {
	if tx.batch == nil {
		return
	}
	if tx.batch.byName == nil {
		tx.batch.byName = map[string]string{}
	}
	tx.batch.byName[name] = value
}

// Remembered returns the value that Remember keeps; ok is false if there is none.
func (tx *Tx) Remembered(name string) (value string, ok bool) {
	if tx.batch == nil {
		return "", false
	}
	value, ok = tx.batch.byName[name]
	return value, ok
}

// Forget removes the value that Remember keeps.
func (tx *Tx) Forget(name string) {
	if tx.batch != nil {
		delete(tx.batch.byName, name)
	}
}
