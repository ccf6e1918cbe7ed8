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

1.39 PUT /resource_providers/$host/inventories {"resource_provider_generation":0,"inventories":{"VCPU":{"total":8,"max_unit":4},"MEMORY_MB":{"total":1024,"step_size":128}}}
200 | last-modified, no-cache
{
  "inventories": {
    "MEMORY_MB": {"allocation_ratio":1.0,"max_unit":2147483647,"min_unit":1,"reserved":0,"step_size":128,"total":1024},
    "VCPU": {"allocation_ratio":1.0,"max_unit":4,"min_unit":1,"reserved":0,"step_size":1,"total":8}
  },
  "resource_provider_generation": 1
}

# Nothing is held.
1.39 GET /allocations/$c1
200 | last-modified, no-cache
{"allocations":{}}

1.39 DELETE /allocations/$c1
404
error "placement.undefined_code"

# A claim.
1.39 PUT /allocations/$c1 {"allocations":{"$host":{"resources":{"VCPU":2,"MEMORY_MB":256}}},"mappings":{"":["$host"]},"project_id":"p","user_id":"u","consumer_generation":null,"consumer_type":"INSTANCE"}
204

1.39 GET /allocations/$c1
200 | last-modified, no-cache
{
  "allocations": {"$host":{"generation":2,"resources":{"MEMORY_MB":256,"VCPU":2}}},
  "consumer_generation": 1,
  "consumer_type": "INSTANCE",
  "project_id": "p",
  "user_id": "u"
}

1.27 GET /allocations/$c1
200 | last-modified, no-cache
{
  "allocations": {"$host":{"generation":2,"resources":{"MEMORY_MB":256,"VCPU":2}}},
  "project_id": "p",
  "user_id": "u"
}

1.0 GET /allocations/$c1
200
{"allocations":{"$host":{"generation":2,"resources":{"MEMORY_MB":256,"VCPU":2}}}}

1.39 GET /resource_providers/$host/allocations
200 | last-modified, no-cache
{
  "allocations": {"$c1":{"consumer_generation":1,"resources":{"MEMORY_MB":256,"VCPU":2}}},
  "resource_provider_generation": 2
}

1.27 GET /resource_providers/$host/allocations
200 | last-modified, no-cache
{"allocations":{"$c1":{"resources":{"MEMORY_MB":256,"VCPU":2}}},"resource_provider_generation":2}

1.39 GET /resource_providers/$nobody/allocations
404
error "placement.undefined_code"

1.39 GET /resource_providers/$host/usages
200 | last-modified, no-cache
{"resource_provider_generation":2,"usages":{"MEMORY_MB":256,"VCPU":2}}

1.39 GET /resource_providers?resources=VCPU:4
200 | last-modified, no-cache
{
  "resource_providers": [
    {
      "generation": 2,
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
  ]
}

1.39 GET /resource_providers?resources=VCPU:3,MEMORY_MB:1024
200 | last-modified, no-cache
{"resource_providers":[]}

# Refused for a generation: read again and retry.
1.39 PUT /allocations/$c1 {"allocations":{"$host":{"resources":{"VCPU":1}}},"project_id":"p","user_id":"u","consumer_generation":null,"consumer_type":"INSTANCE"}
409
error "placement.concurrent_update"

1.39 PUT /allocations/$c2 {"allocations":{"$host":{"resources":{"VCPU":1}}},"project_id":"p","user_id":"u","consumer_generation":5,"consumer_type":"INSTANCE"}
409
error "placement.concurrent_update"

# Refused for what there is: a retry helps nobody.
1.39 PUT /allocations/$c2 {"allocations":{"$host":{"resources":{"VCPU":5}}},"project_id":"p","user_id":"u","consumer_generation":null,"consumer_type":"INSTANCE"}
409
error "placement.undefined_code"

1.39 PUT /allocations/$c2 {"allocations":{"$host":{"resources":{"MEMORY_MB":100}}},"project_id":"p","user_id":"u","consumer_generation":null,"consumer_type":"INSTANCE"}
409
error "placement.undefined_code"

1.39 PUT /allocations/$c2 {"allocations":{"$host":{"resources":{"MEMORY_MB":896}}},"project_id":"p","user_id":"u","consumer_generation":null,"consumer_type":"INSTANCE"}
409
error "placement.undefined_code"

1.39 PUT /allocations/$c2 {"allocations":{"$host":{"resources":{"DISK_GB":1}}},"project_id":"p","user_id":"u","consumer_generation":null,"consumer_type":"INSTANCE"}
409
error "placement.undefined_code"

# Refused for its words.
1.39 PUT /allocations/$c2 {"allocations":{"$nobody":{"resources":{"VCPU":1}}},"project_id":"p","user_id":"u","consumer_generation":null,"consumer_type":"INSTANCE"}
400
error "placement.undefined_code"

1.39 PUT /allocations/$c2 {"allocations":{"$host":{"resources":{"NOPE":1}}},"project_id":"p","user_id":"u","consumer_generation":null,"consumer_type":"INSTANCE"}
400
error "placement.undefined_code"

1.39 PUT /allocations/c2 {"allocations":{"$host":{"resources":{"VCPU":1}}},"project_id":"p","user_id":"u","consumer_generation":null,"consumer_type":"INSTANCE"}
400
error "placement.undefined_code"

1.39 PUT /allocations/$c2 {"allocations":{"$host":{"resources":{"VCPU":0}}},"project_id":"p","user_id":"u","consumer_generation":null,"consumer_type":"INSTANCE"}
400
error "placement.undefined_code"

1.39 PUT /allocations/$c2 {"allocations":{"$host":{"resources":{"VCPU":1}}},"project_id":"p","user_id":"u","consumer_generation":null}
400
error "placement.undefined_code"

1.37 PUT /allocations/$c2 {"allocations":{"$host":{"resources":{"VCPU":1}}},"project_id":"p","user_id":"u","consumer_generation":null,"consumer_type":"INSTANCE"}
400
error "placement.undefined_code"

# A member that is there twice is read as it was judged: the last one.
1.39 PUT /allocations/$c2 {"allocations":{"$host":{"resources":{"VCPU":-5}}},"allocations":{"$host":{"resources":{"VCPU":1}}},"project_id":"p","user_id":"u","consumer_generation":null,"consumer_type":"INSTANCE"}
204

1.39 GET /resource_providers/$host/usages
200 | last-modified, no-cache
{"resource_provider_generation":3,"usages":{"MEMORY_MB":256,"VCPU":3}}

# The first microversions.
1.0 PUT /allocations/$c3 {"allocations":[{"resource_provider":{"uuid":"$host"},"resources":{"VCPU":1}}]}
204

1.8 PUT /allocations/$c3 {"allocations":[{"resource_provider":{"uuid":"$host"},"resources":{"VCPU":1}}]}
400
error ""

1.12 PUT /allocations/$c3 {"allocations":{"$host":{"resources":{"VCPU":1}}},"project_id":"p","user_id":"u"}
204

1.12 PUT /allocations/$c3 {"allocations":{},"project_id":"p","user_id":"u"}
400
error ""

1.39 GET /allocations/$c3
200 | last-modified, no-cache
{
  "allocations": {"$host":{"generation":5,"resources":{"VCPU":1}}},
  "consumer_generation": 2,
  "consumer_type": "unknown",
  "project_id": "p",
  "user_id": "u"
}

# Several consumers at once: all or nothing.
1.12 POST /allocations {}
404
error ""

1.39 POST /allocations {}
400
error "placement.undefined_code"

1.39 POST /allocations {"$c1":{"allocations":{},"project_id":"p","user_id":"u","consumer_generation":1,"consumer_type":"INSTANCE"},"$c4":{"allocations":{"$host":{"resources":{"VCPU":5}}},"project_id":"p","user_id":"u","consumer_generation":null,"consumer_type":"MIGRATION"}}
409
error "placement.undefined_code"

1.39 GET /allocations/$c1
200 | last-modified, no-cache
{
  "allocations": {"$host":{"generation":5,"resources":{"MEMORY_MB":256,"VCPU":2}}},
  "consumer_generation": 1,
  "consumer_type": "INSTANCE",
  "project_id": "p",
  "user_id": "u"
}

1.39 POST /allocations {"$c1":{"allocations":{},"project_id":"p","user_id":"u","consumer_generation":1,"consumer_type":"INSTANCE"},"$c4":{"allocations":{"$host":{"resources":{"VCPU":2}}},"project_id":"p","user_id":"u","consumer_generation":null,"consumer_type":"MIGRATION"}}
204

1.39 GET /allocations/$c1
200 | last-modified, no-cache
{"allocations":{}}

1.39 GET /allocations/$c4
200 | last-modified, no-cache
{
  "allocations": {"$host":{"generation":6,"resources":{"VCPU":2}}},
  "consumer_generation": 1,
  "consumer_type": "MIGRATION",
  "project_id": "p",
  "user_id": "u"
}

# What a project holds.
1.8 GET /usages?project_id=p
404
error ""

1.9 GET /usages?project_id=p
200
{"usages":{"VCPU":4}}

1.37 GET /usages?project_id=p&user_id=u
200 | last-modified, no-cache
{"usages":{"VCPU":4}}

1.38 GET /usages?project_id=p
200 | last-modified, no-cache
{"usages":{"INSTANCE":{"VCPU":1,"consumer_count":1},"MIGRATION":{"VCPU":2,"consumer_count":1},"unknown":{"VCPU":1,"consumer_count":1}}}

1.38 GET /usages?project_id=p&consumer_type=all
200 | last-modified, no-cache
{"usages":{"all":{"VCPU":4,"consumer_count":3}}}

1.38 GET /usages?project_id=p&consumer_type=MIGRATION
200 | last-modified, no-cache
{"usages":{"MIGRATION":{"VCPU":2,"consumer_count":1}}}

1.38 GET /usages?project_id=p&consumer_type=unknown
200 | last-modified, no-cache
{"usages":{"unknown":{"VCPU":1,"consumer_count":1}}}

1.38 GET /usages?project_id=nobody
200 | last-modified, no-cache
{"usages":{}}

1.38 GET /usages
400
error "placement.undefined_code"

1.37 GET /usages?project_id=p&consumer_type=all
400
error "placement.undefined_code"

# An empty claim lets everything go, and so does DELETE.
1.39 PUT /allocations/$c4 {"allocations":{},"project_id":"p","user_id":"u","consumer_generation":1,"consumer_type":"MIGRATION"}
204

1.39 DELETE /allocations/$c2
204

1.39 DELETE /allocations/$c3
204

1.39 DELETE /resource_providers/$host
204
