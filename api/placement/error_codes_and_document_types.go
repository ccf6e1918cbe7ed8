package placement

// The codes of Placement's error bodies, as the OpenStack API reference lists them.
const (
	CodeUndefined            = "placement.undefined_code"
	CodeConcurrentUpdate     = "placement.concurrent_update"
	CodeTreeChanged          = "berth.tree_changed" // see IfTreeStateHeader
	CodeUndecided            = "berth.undecided"    // 503: a search took too long, so its answer would not be complete
	CodeDuplicateName        = "placement.duplicate_name"
	CodeProviderInUse        = "placement.resource_provider.inuse"
	CodeProviderCannotDelete = "placement.resource_provider.cannot_delete_parent"
	CodeProviderNotFound     = "placement.resource_provider.not_found"
	CodeInventoryInUse       = "placement.inventory.inuse"
	CodeQueryBadValue        = "placement.query.bad_value"
	CodeQueryMissingValue    = "placement.query.missing_value"
	CodeQueryDuplicateKey    = "placement.query.duplicate_key"
)

// ErrorsDoc is the body of every answer with an error status. Berth sends one error.
type ErrorsDoc struct {
	Errors []ErrorDoc `json:"errors"`
}

// ErrorDoc is one error. Code exists since microversion 1.23; the versions belong to status 406 alone.
type ErrorDoc struct {
	Status     int    `json:"status"`
	Title      string `json:"title"`
	Detail     string `json:"detail"`
	Code       string `json:"code,omitempty"`
	MaxVersion string `json:"max_version,omitempty"`
	MinVersion string `json:"min_version,omitempty"`
	RequestID  string `json:"request_id"`
}
