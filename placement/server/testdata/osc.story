# What Debian's `openstack` client asks: it reads the version document without a version, and then speaks 1.29 or what
# --os-placement-api-version says. Each block is one of its requests, as it sends it.
1.29 GET /
200 | last-modified, no-cache
{"versions":[{"id":"v1.0","links":[{"href":"","rel":"self"}],"max_version":"1.39","min_version":"1.0","status":"CURRENT"}]}

1.29 POST /resource_providers {"name": "host", "uuid": "$host"}
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

1.14 POST /resource_providers {"name": "child", "uuid": "$child", "parent_provider_uuid": "$host"}
201 | location: /resource_providers/$child

1.0 GET /resource_providers
200
{
  "resource_providers": [
    {
      "generation": 0,
      "links": [
        {"href":"/resource_providers/$host","rel":"self"},
        {"href":"/resource_providers/$host/inventories","rel":"inventories"},
        {"href":"/resource_providers/$host/usages","rel":"usages"}
      ],
      "name": "host",
      "uuid": "$host"
    },
    {
      "generation": 0,
      "links": [
        {"href":"/resource_providers/$child","rel":"self"},
        {"href":"/resource_providers/$child/inventories","rel":"inventories"},
        {"href":"/resource_providers/$child/usages","rel":"usages"}
      ],
      "name": "child",
      "uuid": "$child"
    }
  ]
}

1.29 GET /resource_providers?name=host
200 | last-modified, no-cache
{
  "resource_providers": [
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
  ]
}

1.18 GET /resource_providers?in_tree=$child
200 | last-modified, no-cache
{
  "resource_providers": [
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
    },
    {
      "generation": 0,
      "links": [
        {"href":"/resource_providers/$child","rel":"self"},
        {"href":"/resource_providers/$child/inventories","rel":"inventories"},
        {"href":"/resource_providers/$child/usages","rel":"usages"},
        {"href":"/resource_providers/$child/aggregates","rel":"aggregates"},
        {"href":"/resource_providers/$child/traits","rel":"traits"},
        {"href":"/resource_providers/$child/allocations","rel":"allocations"}
      ],
      "name": "child",
      "parent_provider_uuid": "$host",
      "root_provider_uuid": "$host",
      "uuid": "$child"
    }
  ]
}

# openstack resource provider inventory set, class set, list, show, delete
1.29 PUT /resource_providers/$host/inventories {"inventories": {"VCPU": {"total": 8, "allocation_ratio": 4.0}, "MEMORY_MB": {"total": 1024}}, "resource_provider_generation": 0}
200 | last-modified, no-cache
{
  "inventories": {
    "MEMORY_MB": {"allocation_ratio":1.0,"max_unit":2147483647,"min_unit":1,"reserved":0,"step_size":1,"total":1024},
    "VCPU": {"allocation_ratio":4.0,"max_unit":2147483647,"min_unit":1,"reserved":0,"step_size":1,"total":8}
  },
  "resource_provider_generation": 1
}

1.0 PUT /resource_providers/$host/inventories/VCPU {"resource_provider_generation": 1, "total": 16}
200
{"allocation_ratio":1.0,"max_unit":2147483647,"min_unit":1,"reserved":0,"resource_provider_generation":2,"step_size":1,"total":16}

1.0 GET /resource_providers/$host/inventories
200
{
  "inventories": {
    "MEMORY_MB": {"allocation_ratio":1.0,"max_unit":2147483647,"min_unit":1,"reserved":0,"step_size":1,"total":1024},
    "VCPU": {"allocation_ratio":1.0,"max_unit":2147483647,"min_unit":1,"reserved":0,"step_size":1,"total":16}
  },
  "resource_provider_generation": 2
}

1.0 GET /resource_providers/$host/inventories/VCPU
200
{"allocation_ratio":1.0,"max_unit":2147483647,"min_unit":1,"reserved":0,"resource_provider_generation":2,"step_size":1,"total":16}

1.0 DELETE /resource_providers/$host/inventories/MEMORY_MB
204

# openstack resource class create, set, list
1.2 POST /resource_classes {"name": "CUSTOM_X"}
201 | location: /resource_classes/CUSTOM_X

1.7 PUT /resource_classes/CUSTOM_Y
201 | location: /resource_classes/CUSTOM_Y

1.2 GET /resource_classes/CUSTOM_X
200
{"links":[{"href":"/resource_classes/CUSTOM_X","rel":"self"}],"name":"CUSTOM_X"}

# openstack trait create, list, show; resource provider trait set, list
1.6 PUT /traits/CUSTOM_T
201 | location: /traits/CUSTOM_T

1.6 GET /traits?name=startswith%3ACUSTOM_T
200
{"traits":["CUSTOM_T"]}

1.6 GET /traits/CUSTOM_T
204

1.6 PUT /resource_providers/$host/traits {"resource_provider_generation": 3, "traits": ["CUSTOM_T"]}
200
{"resource_provider_generation":4,"traits":["CUSTOM_T"]}

1.6 GET /resource_providers/$host/traits
200
{"resource_provider_generation":4,"traits":["CUSTOM_T"]}

# openstack resource provider aggregate set, list
1.1 PUT /resource_providers/$host/aggregates ["$rack"]
200
{"aggregates":["$rack"]}

1.19 PUT /resource_providers/$host/aggregates {"aggregates": ["$rack"], "resource_provider_generation": 4}
200 | last-modified, no-cache
{"aggregates":["$rack"],"resource_provider_generation":5}

1.19 GET /resource_providers/$host/aggregates
200 | last-modified, no-cache
{"aggregates":["$rack"],"resource_provider_generation":5}

# openstack resource provider allocation set, show, unset
1.0 PUT /allocations/$c1 {"allocations": [{"resource_provider": {"uuid": "$host"}, "resources": {"VCPU": 2}}]}
204

1.12 PUT /allocations/$c1 {"allocations": {"$host": {"resources": {"VCPU": 3}}}, "project_id": "p", "user_id": "u"}
204

1.28 PUT /allocations/$c1 {"allocations": {"$host": {"resources": {"VCPU": 4}}}, "consumer_generation": 2, "project_id": "p", "user_id": "u"}
204

1.38 PUT /allocations/$c1 {"allocations": {"$host": {"resources": {"VCPU": 4}}}, "consumer_generation": 3, "project_id": "p", "user_id": "u", "consumer_type": "INSTANCE"}
204

1.28 GET /allocations/$c1
200 | last-modified, no-cache
{
  "allocations": {"$host":{"generation":9,"resources":{"VCPU":4}}},
  "consumer_generation": 4,
  "project_id": "p",
  "user_id": "u"
}

1.0 GET /allocations/$c1
200
{"allocations":{"$host":{"generation":9,"resources":{"VCPU":4}}}}

# openstack resource provider usage show, resource usage show
1.0 GET /resource_providers/$host/usages
200
{"resource_provider_generation":9,"usages":{"VCPU":4}}

1.9 GET /usages?project_id=p
200
{"usages":{"VCPU":4}}

1.38 GET /usages?project_id=p
200 | last-modified, no-cache
{"usages":{"INSTANCE":{"VCPU":4,"consumer_count":1}}}

# openstack allocation candidate list
1.17 GET /allocation_candidates?resources=VCPU%3A1&required=CUSTOM_T
200 | last-modified, no-cache
{
  "allocation_requests": [{"allocations":{"$host":{"resources":{"VCPU":1}}}}],
  "provider_summaries": {"$host":{"resources":{"VCPU":{"capacity":16,"used":4}},"traits":["CUSTOM_T"]}}
}

1.29 GET /allocation_candidates?limit=1&resources=VCPU%3A1&required=CUSTOM_T
200 | last-modified, no-cache
{
  "allocation_requests": [{"allocations":{"$host":{"resources":{"VCPU":1}}}}],
  "provider_summaries": {
    "$host": {
      "parent_provider_uuid": null,
      "resources": {"VCPU":{"capacity":16,"used":4}},
      "root_provider_uuid": "$host",
      "traits": ["CUSTOM_T"]
    },
    "$child": {
      "parent_provider_uuid": "$host",
      "resources": {},
      "root_provider_uuid": "$host",
      "traits": []
    }
  }
}

1.29 GET /allocation_candidates?resources=VCPU%3A100000
200 | last-modified, no-cache
{"allocation_requests":[],"provider_summaries":{}}

1.38 PUT /allocations/$c1 {"allocations": {}, "consumer_generation": 4, "consumer_type": "INSTANCE", "project_id": "p", "user_id": "u"}
204

1.0 DELETE /allocations/$c1
404
error ""

1.0 DELETE /resource_providers/$host
409
error ""

1.0 DELETE /resource_providers/$child
204

1.0 DELETE /resource_providers/$host
204

1.0 GET /resource_providers/$host
404
error ""

1.2 DELETE /resource_classes/CUSTOM_X
204

1.6 DELETE /traits/CUSTOM_T
204
