// Package request holds what the handlers of all resources of the Networking API share: the call, the checks before it,
// errors, and the handlers of a collection. It knows no resource. The files, from the bottom to the top:
//
//	style       how Neutron reads the objects of requests
//	call        one request and its response
//	errors      the answers to refusals and errors
//	shares      which objects are shared with the project of the caller
//	list_query  filters, order and pages of lists
//	collection  the attributes and functions of one resource, and the handlers that all collections have
//	attributes  the attributes that the objects of all collections have
package request
