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

# Nothing yet has no age.
1.39 GET /resource_providers/$host/inventories
200
{"inventories":{},"resource_provider_generation":0}

1.39 PUT /resource_providers/$host/inventories {"resource_provider_generation":0,"inventories":{"VCPU":{"total":8,"reserved":1,"allocation_ratio":4.0},"MEMORY_MB":{"total":1024,"step_size":128,"min_unit":128,"max_unit":512}}}
200 | last-modified, no-cache
{
  "inventories": {
    "MEMORY_MB": {"allocation_ratio":1.0,"max_unit":512,"min_unit":128,"reserved":0,"step_size":128,"total":1024},
    "VCPU": {"allocation_ratio":4.0,"max_unit":2147483647,"min_unit":1,"reserved":1,"step_size":1,"total":8}
  },
  "resource_provider_generation": 1
}

1.39 GET /resource_providers/$host/inventories
200 | last-modified, no-cache
{
  "inventories": {
    "MEMORY_MB": {"allocation_ratio":1.0,"max_unit":512,"min_unit":128,"reserved":0,"step_size":128,"total":1024},
    "VCPU": {"allocation_ratio":4.0,"max_unit":2147483647,"min_unit":1,"reserved":1,"step_size":1,"total":8}
  },
  "resource_provider_generation": 1
}

1.0 GET /resource_providers/$host/inventories/VCPU
200
{"allocation_ratio":4.0,"max_unit":2147483647,"min_unit":1,"reserved":1,"resource_provider_generation":1,"step_size":1,"total":8}

1.39 GET /resource_providers/$host/inventories/PCPU
404
error "placement.undefined_code"

1.39 GET /resource_providers/$nobody/inventories
404
error "placement.undefined_code"

# A generation that has moved.
1.39 PUT /resource_providers/$host/inventories {"resource_provider_generation":0,"inventories":{}}
409
error "placement.concurrent_update"

# Words that make no sense. That the provider is missing or the generation has moved comes first.
1.39 PUT /resource_providers/$nobody/inventories {"inventories":{}}
404
error "placement.undefined_code"

1.39 PUT /resource_providers/$host/inventories {"inventories":{}}
400
error "placement.undefined_code"

1.39 PUT /resource_providers/$host/inventories {"resource_provider_generation":1,"inventories":{"VCPU":{"total":0}}}
400
error "placement.undefined_code"

1.39 PUT /resource_providers/$host/inventories {"resource_provider_generation":1,"inventories":{"VCPU":{"total":2147483648}}}
400
error "placement.undefined_code"

1.39 PUT /resource_providers/$host/inventories {"resource_provider_generation":1,"inventories":{"VCPU":{"total":1,"colour":1}}}
400
error "placement.undefined_code"

1.39 PUT /resource_providers/$host/inventories {"resource_provider_generation":1,"inventories":{"NOPE":{"total":1}}}
400
error "placement.undefined_code"

1.39 PUT /resource_providers/$host/inventories {"resource_provider_generation":1,"inventories":{"VCPU":{"total":1,"reserved":2}}}
400
error "placement.undefined_code"

1.39 PUT /resource_providers/$host/inventories {"resource_provider_generation":0,"inventories":{"VCPU":{"total":1,"reserved":2}}}
409
error "placement.concurrent_update"

# Since 1.26 all may be reserved.
1.25 PUT /resource_providers/$host/inventories/VCPU {"resource_provider_generation":1,"total":8,"reserved":8}
400
error "placement.undefined_code"

1.26 PUT /resource_providers/$host/inventories/VCPU {"resource_provider_generation":1,"total":8,"reserved":8}
200 | last-modified, no-cache
{"allocation_ratio":1.0,"max_unit":2147483647,"min_unit":1,"reserved":8,"resource_provider_generation":2,"step_size":1,"total":8}

1.39 PUT /resource_providers/$host/inventories/VCPU {"resource_provider_generation":1,"total":8}
409
error "placement.concurrent_update"

1.39 PUT /resource_providers/$host/inventories/PCPU {"resource_provider_generation":2,"total":8}
400
error "placement.undefined_code"

1.39 PUT /resource_providers/$host/inventories/NOPE {"resource_provider_generation":2,"total":8}
404
error "placement.undefined_code"

# One class more.
1.39 POST /resource_providers/$host/inventories {"resource_class":"DISK_GB","total":100.0}
201 | location: /resource_providers/$host/inventories/DISK_GB | last-modified, no-cache
{"allocation_ratio":1.0,"max_unit":2147483647,"min_unit":1,"reserved":0,"resource_provider_generation":3,"step_size":1,"total":100}

1.39 POST /resource_providers/$host/inventories {"resource_class":"DISK_GB","total":100}
409
error "placement.concurrent_update"

1.39 POST /resource_providers/$host/inventories {"resource_class":"NOPE","total":100}
400
error "placement.undefined_code"

1.39 POST /resource_providers/$host/inventories {"resource_class":"nope","total":100}
400
error "placement.undefined_code"

1.39 POST /resource_providers/$nobody/inventories {"total":100}
404
error "placement.undefined_code"

# What is in use stays.
1.39 PUT /allocations/$c1 {"allocations":{"$host":{"resources":{"DISK_GB":10}}},"project_id":"p","user_id":"u","consumer_generation":null,"consumer_type":"INSTANCE"}
204

1.39 DELETE /resource_providers/$host/inventories/DISK_GB
409
error "placement.concurrent_update"

1.39 DELETE /resource_providers/$host/inventories
409
error "placement.inventory.inuse"

1.39 PUT /resource_providers/$host/inventories {"resource_provider_generation":4,"inventories":{"VCPU":{"total":1}}}
409
error "placement.inventory.inuse"

1.39 DELETE /resource_providers/$host
409
error "placement.resource_provider.inuse"

# But it may become smaller than its usage.
1.39 PUT /resource_providers/$host/inventories {"resource_provider_generation":4,"inventories":{"DISK_GB":{"total":5}}}
200 | last-modified, no-cache
{
  "inventories": {"DISK_GB":{"allocation_ratio":1.0,"max_unit":2147483647,"min_unit":1,"reserved":0,"step_size":1,"total":5}},
  "resource_provider_generation": 5
}

1.39 GET /resource_providers/$host/usages
200 | last-modified, no-cache
{"resource_provider_generation":5,"usages":{"DISK_GB":10}}

1.39 DELETE /allocations/$c1
204

1.39 DELETE /resource_providers/$host/inventories/DISK_GB
204

1.39 DELETE /resource_providers/$host/inventories/DISK_GB
404
error "placement.undefined_code"

1.39 DELETE /resource_providers/$host/inventories/NOPE
404
error "placement.undefined_code"

1.4 DELETE /resource_providers/$host/inventories
405 | allow: DELETE, GET, POST, PUT
error ""

1.5 DELETE /resource_providers/$host/inventories
204

1.39 DELETE /resource_providers/$nobody/inventories
404
error "placement.undefined_code"
