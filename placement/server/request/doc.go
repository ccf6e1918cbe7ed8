// Package request holds what the handlers of Placement share: the call, the checks before it, what is sent, and the
// bounds of what all requests use together. It knows no resource. The files, from the bottom to the top:
//
//	fair_queue    fair shares of searches that take long
//	call, slots   the state of one request; the slot or the turn in which it searches
//	json          a buffer to which JSON is appended
//	answers       whole answers, and answers in chunks
//	errors        the answers to refusals and errors
//	requests      the checks of every request, its query and its body
//	unknown_names queries with names that do not exist
//	verbs         the methods of paths, with their policy rules
package request
