package demo

// Types counts records by the type of their acknowledgement.
type Types struct {
	Accept  int64 `json:"accept"`
	Release int64 `json:"release"`
	Reject  int64 `json:"reject"`
}

// Carriers counts records by the message that their acknowledgement rode on.
type Carriers struct {
	ShareFetch       int64 `json:"share_fetch"`
	ShareAcknowledge int64 `json:"share_acknowledge"`
}

// Verdicts counts records by what the broker said about their acknowledgement.
type Verdicts struct {
	Accepted int64 `json:"accepted"`
	Refused  int64 `json:"refused"`
	Unknown  int64 `json:"unknown"`
}

// Result is what a run of the demo comes to. All figures are records, not ranges and not requests.
type Result struct {
	Records    int64    `json:"records"`    // produced
	Deliveries int64    `json:"deliveries"` // records that members got, each time counted
	Acks       Types    `json:"acks"`       // by the audit
	Carriers   Carriers `json:"carriers"`   // by the audit
	Verdicts   Verdicts `json:"verdicts"`   // by the audit
	Client     Types    `json:"client"`     // by the members themselves

	Unaudited int64 `json:"unaudited"` // acknowledgements that a member made and the audit lacks
	Invented  int64 `json:"invented"`  // acknowledgements in the audit that no member made
	Escapes   int64 `json:"escapes"`   // addresses of brokers that reached a client
	Match     bool  `json:"match"`
}

// judge sets Match: nothing missing, nothing made up, nothing leaked, and a verdict for every acknowledgement.
func (r *Result) judge() {
	r.Match = r.Unaudited == 0 && r.Invented == 0 && r.Escapes == 0 && r.Verdicts.Unknown == 0
}
