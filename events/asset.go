package events

// AssetType is what an asset is.
type AssetType string

// AssetTool is a tool that is not one of the closed list of built-in ones, AssetServer a
// server whose tools are offered; what agents propose has types that people name in the
// catalog.
const (
	AssetTool   AssetType = "tool"
	AssetServer AssetType = "server"
)

// AssetState is where an asset is; package asset of policy has the transitions.
type AssetState string

// The states. Only an approved asset, and a provisional one until it expires, runs.
const (
	AssetStateProvisional AssetState = "provisional"
	AssetStateBlocked     AssetState = "blocked"
	AssetStateApproved    AssetState = "approved"
	AssetStateRefused     AssetState = "refused"
	AssetStateReplaced    AssetState = "replaced" // another version was approved in its place
)

// AssetRegistered is the first fact about one version of an asset.
type AssetRegistered struct {
	Asset AssetID   `json:"asset"`
	Type  AssetType `json:"kind"`
	Owner string    `json:"owner"`
	Name  string    `json:"name"`
	// Version is the digest, and the blob, of what defines it.
	Version Digest     `json:"version"`
	Tier    Tier       `json:"tier"`
	State   AssetState `json:"state"`
	// Expires ends the grace of a provisional asset; 0 for others.
	Expires Instant `json:"expires,omitzero"`
	// Call is the call that met it first; empty where a person registered it.
	Call CallID `json:"call,omitzero"`
	// Commit and Document are of what an agent proposed: the whole id of the commit that
	// holds it, and the path of its document there.
	Commit   string `json:"commit,omitzero"`
	Document string `json:"document,omitzero"`
	// Text is the digest, and the blob, of that document.
	Text Digest `json:"text,omitzero"`
}

// AssetApproved is a person's yes to one version; the actor is the person.
type AssetApproved struct {
	Asset   AssetID `json:"asset"`
	Version Digest  `json:"version"`
	// Shown is the digest, and the blob, of the document that the person saw.
	Shown Digest `json:"shown"`
	// Replaces is the version of the same name that was approved until now.
	Replaces AssetID `json:"replaces,omitzero"`
}

// AssetRefused is a person's no to one version, at once in force; the actor is the person.
type AssetRefused struct {
	Asset  AssetID `json:"asset"`
	Reason string  `json:"reason,omitzero"`
}

// AssetExpired ends the grace of a provisional asset: it is blocked from then on.
type AssetExpired struct {
	Asset AssetID `json:"asset"`
}

// AssetRetiered says that a version has another tier, and the state that follows. A tier
// falls only by a person; one that rises by itself blocks what was not approved for it.
type AssetRetiered struct {
	Asset AssetID    `json:"asset"`
	Tier  Tier       `json:"tier"`
	State AssetState `json:"state"`
}

// Kind is "asset.registered".
func (AssetRegistered) Kind() Kind { return KindAssetRegistered }

// Kind is "asset.approved".
func (AssetApproved) Kind() Kind { return KindAssetApproved }

// Kind is "asset.refused".
func (AssetRefused) Kind() Kind { return KindAssetRefused }

// Kind is "asset.expired".
func (AssetExpired) Kind() Kind { return KindAssetExpired }

// Kind is "asset.retiered".
func (AssetRetiered) Kind() Kind { return KindAssetRetiered }

func (AssetRegistered) sealed() {}
func (AssetApproved) sealed()   {}
func (AssetRefused) sealed()    {}
func (AssetExpired) sealed()    {}
func (AssetRetiered) sealed()   {}
