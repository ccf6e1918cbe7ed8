package request

// MaxTags is how many tags a server may have.
const MaxTags = 50
