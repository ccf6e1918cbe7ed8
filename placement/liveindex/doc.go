// Package liveindex keeps the index of all provider trees in memory equal to the database. Its files from the bottom to
// the top:
//
//	delta      what a write changes in one provider, applied without reading its tree again
//	refresh    the newest snapshot, and reading trees again
//	names      the resource classes and traits that exist
//	syncer     finds the writes of other processes
//	summaries  the encoded provider summaries of each tree
//
// The database decides whether a claim is granted; the index only proposes candidates.
package liveindex
