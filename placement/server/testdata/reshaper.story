# VCPU moves from the host to its NUMA nodes, and the allocations with it.
1.39 POST /resource_providers {"name":"host","uuid":"$host"}
200 | location: /resource_providers/$host | last-modified, no-cache
{
  "generation": 0,
  "links": [
    {"href":"/resource_providers/$host","rel":"self"},
    {"href":"/resource_providers/$host/inventories","rel":"inventories"},
    {"href":"/resource_providers/$host/usages","rel":"usages"},
    {"href":"/resource_providers/$host/aggregates","rel":"aggregates"},
    {"href":"/resource_providers/$host/traits","rel":"traits"},
    {"href":"/resource_providers/$host/allocations","rel":"allocations"}
  ],
  "name": "host",
  "parent_provider_uuid": null,
  "root_provider_uuid": "$host",
  "uuid": "$host"
}

1.39 POST /resource_providers {"name":"numa0","uuid":"$n0","parent_provider_uuid":"$host"}
200 | location: /resource_providers/$n0 | last-modified, no-cache
{
  "generation": 0,
  "links": [
    {"href":"/resource_providers/$n0","rel":"self"},
    {"href":"/resource_providers/$n0/inventories","rel":"inventories"},
    {"href":"/resource_providers/$n0/usages","rel":"usages"},
    {"href":"/resource_providers/$n0/aggregates","rel":"aggregates"},
    {"href":"/resource_providers/$n0/traits","rel":"traits"},
    {"href":"/resource_providers/$n0/allocations","rel":"allocations"}
  ],
  "name": "numa0",
  "parent_provider_uuid": "$host",
  "root_provider_uuid": "$host",
  "uuid": "$n0"
}

1.39 POST /resource_providers {"name":"numa1","uuid":"$n1","parent_provider_uuid":"$host"}
200 | location: /resource_providers/$n1 | last-modified, no-cache
{
  "generation": 0,
  "links": [
    {"href":"/resource_providers/$n1","rel":"self"},
    {"href":"/resource_providers/$n1/inventories","rel":"inventories"},
    {"href":"/resource_providers/$n1/usages","rel":"usages"},
    {"href":"/resource_providers/$n1/aggregates","rel":"aggregates"},
    {"href":"/resource_providers/$n1/traits","rel":"traits"},
    {"href":"/resource_providers/$n1/allocations","rel":"allocations"}
  ],
  "name": "numa1",
  "parent_provider_uuid": "$host",
  "root_provider_uuid": "$host",
  "uuid": "$n1"
}

1.39 PUT /resource_providers/$host/inventories {"resource_provider_generation":0,"inventories":{"VCPU":{"total":8},"DISK_GB":{"total":100}}}
200 | last-modified, no-cache
{
  "inventories": {
    "DISK_GB": {"allocation_ratio":1.0,"max_unit":2147483647,"min_unit":1,"reserved":0,"step_size":1,"total":100},
    "VCPU": {"allocation_ratio":1.0,"max_unit":2147483647,"min_unit":1,"reserved":0,"step_size":1,"total":8}
  },
  "resource_provider_generation": 1
}

1.39 PUT /allocations/$c1 {"allocations":{"$host":{"resources":{"VCPU":3,"DISK_GB":10}}},"project_id":"p","user_id":"u","consumer_generation":null,"consumer_type":"INSTANCE"}
204

# The plain way is barred.
1.39 PUT /resource_providers/$host/inventories {"resource_provider_generation":2,"inventories":{"DISK_GB":{"total":100}}}
409
error "placement.inventory.inuse"

1.29 POST /reshaper {}
404
error "placement.undefined_code"

1.39 POST /reshaper {}
400
error "placement.undefined_code"

1.39 POST /reshaper {"inventories":{},"allocations":{}}
400
error "placement.undefined_code"

1.39 POST /reshaper {"inventories":{"$nobody":{"resource_provider_generation":0,"inventories":{}}},"allocations":{}}
400
error "placement.resource_provider.not_found"

1.39 POST /reshaper {"inventories":{"$host":{"resource_provider_generation":1,"inventories":{}}},"allocations":{}}
409
error "placement.concurrent_update"

1.39 POST /reshaper {"inventories":{"$host":{"resource_provider_generation":2,"inventories":{"NOPE":{"total":1}}}},"allocations":{}}
400
error "placement.undefined_code"

1.39 POST /reshaper {"inventories":{"$host":{"resource_provider_generation":2,"inventories":{}}},"allocations":{}}
409
error "placement.inventory.inuse"

1.39 POST /reshaper {"inventories":{"$host":{"resource_provider_generation":2,"inventories":{"DISK_GB":{"total":100}}},"$n0":{"resource_provider_generation":0,"inventories":{"VCPU":{"total":2}}}},"allocations":{"$c1":{"allocations":{"$host":{"resources":{"DISK_GB":10}},"$n0":{"resources":{"VCPU":3}}},"project_id":"p","user_id":"u","consumer_generation":1,"consumer_type":"INSTANCE"}}}
409
error "placement.undefined_code"

1.39 POST /reshaper {"inventories":{"$host":{"resource_provider_generation":2,"inventories":{"DISK_GB":{"total":100}}},"$n0":{"resource_provider_generation":0,"inventories":{"VCPU":{"total":4}}}},"allocations":{"$c1":{"allocations":{"$host":{"resources":{"DISK_GB":10}},"$n0":{"resources":{"VCPU":3}}},"project_id":"p","user_id":"u","consumer_generation":7,"consumer_type":"INSTANCE"}}}
409
error "placement.concurrent_update"

1.39 POST /reshaper {"inventories":{"$host":{"resource_provider_generation":2,"inventories":{"DISK_GB":{"total":100}}},"$n0":{"resource_provider_generation":0,"inventories":{"VCPU":{"total":4}}},"$n1":{"resource_provider_generation":0,"inventories":{"VCPU":{"total":4}}}},"allocations":{"$c1":{"allocations":{"$host":{"resources":{"DISK_GB":10}},"$n0":{"resources":{"VCPU":3}}},"project_id":"p","user_id":"u","consumer_generation":1,"consumer_type":"INSTANCE"}}}
204

1.39 GET /allocations/$c1
200 | last-modified, no-cache
{
  "allocations": {
    "$n0": {"generation":3,"resources":{"VCPU":3}},
    "$host": {"generation":5,"resources":{"DISK_GB":10}}
  },
  "consumer_generation": 2,
  "consumer_type": "INSTANCE",
  "project_id": "p",
  "user_id": "u"
}

1.39 GET /resource_providers/$host/usages
200 | last-modified, no-cache
{"resource_provider_generation":5,"usages":{"DISK_GB":10}}

# The index has followed.
1.39 GET /allocation_candidates?resources=VCPU:2
200 | last-modified, no-cache
{
  "allocation_requests": [{"allocations":{"$n1":{"resources":{"VCPU":2}}},"mappings":{"":["$n1"]}}],
  "provider_summaries": {
    "$n1": {
      "parent_provider_uuid": "$host",
      "resources": {"VCPU":{"capacity":4,"used":0}},
      "root_provider_uuid": "$host",
      "traits": []
    },
    "$n0": {
      "parent_provider_uuid": "$host",
      "resources": {"VCPU":{"capacity":4,"used":3}},
      "root_provider_uuid": "$host",
      "traits": []
    },
    "$host": {
      "parent_provider_uuid": null,
      "resources": {"DISK_GB":{"capacity":100,"used":10}},
      "root_provider_uuid": "$host",
      "traits": []
    }
  }
}
