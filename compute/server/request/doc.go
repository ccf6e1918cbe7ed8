// Package request holds what the handlers of all resources of the Compute API and of the host API share: the call, the
// checks before it, the bodies of requests, the parts of answers, and what several handlers look up. It knows no
// resource. The files, from the bottom to the top:
//
//	call           one request and its answer
//	errors         the answers to refusals and errors
//	routes         the methods of paths: with a policy rule, from a microversion on, refused
//	lookups        the server of the path, hosts, their names and whether they work
//	locked         servers that are locked, and the caller as the history records it
//	accounts       the accounts of hosts, and the methods that only agents call
//	body, strict   the limits of bodies; bodies without unknown keys
//	query_parameters  the parameters of queries that paths have in each version
//	checks         the checks of every request, in their order
//	values         empty values, times and texts of answers and queries; UUIDs and tags
//	queries        unknown parameters of queries, and the times between which something has changed
//	style          how Nova reads the objects of requests
//	limits         the limits of the API
//	links, pages   the links to a resource and to the next page; pages of lists
//	project_path   the project in the path
package request
