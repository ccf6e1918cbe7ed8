// Package openapi describes Berth's own paths, /berth/v1/…, as an OpenAPI document for each service: docs/berth-api.
// Paths of OpenStack's APIs are described by OpenStack. A test writes the documents from the operations here and the
// types of the contracts, and each service compares its routes with the operations.
package openapi
