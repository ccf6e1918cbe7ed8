# Resource classes.
1.1 GET /resource_classes/VCPU
404
error ""

1.2 GET /resource_classes/VCPU
200
{"links":[{"href":"/resource_classes/VCPU","rel":"self"}],"name":"VCPU"}

1.39 PUT /resource_classes/CUSTOM_NIC
201 | location: /resource_classes/CUSTOM_NIC

1.39 PUT /resource_classes/CUSTOM_NIC
204 | location: /resource_classes/CUSTOM_NIC

1.39 GET /resource_classes/CUSTOM_NIC
200 | last-modified, no-cache
{"links":[{"href":"/resource_classes/CUSTOM_NIC","rel":"self"}],"name":"CUSTOM_NIC"}

1.39 PUT /resource_classes/VCPU
400
error "placement.undefined_code"

1.39 PUT /resource_classes/custom_nic
400
error "placement.undefined_code"

1.39 POST /resource_classes {"name":"CUSTOM_GPU"}
201 | location: /resource_classes/CUSTOM_GPU

1.39 POST /resource_classes {"name":"CUSTOM_GPU"}
409
error "placement.undefined_code"

1.39 POST /resource_classes {"name":"GPU"}
400
error "placement.undefined_code"

1.6 PUT /resource_classes/CUSTOM_GPU {"name":"CUSTOM_GPU2"}
200
{"links":[{"href":"/resource_classes/CUSTOM_GPU2","rel":"self"}],"name":"CUSTOM_GPU2"}

1.6 PUT /resource_classes/CUSTOM_GPU2 {"name":"CUSTOM_NIC"}
409
error ""

1.6 PUT /resource_classes/VCPU {"name":"CUSTOM_CPU"}
400
error ""

1.6 PUT /resource_classes/CUSTOM_GPU {"name":"CUSTOM_GPU3"}
404
error ""

1.39 DELETE /resource_classes/CUSTOM_GPU2
204

1.39 DELETE /resource_classes/CUSTOM_GPU2
404
error "placement.undefined_code"

1.39 DELETE /resource_classes/VCPU
400
error "placement.undefined_code"

# Traits.
1.5 PUT /traits/CUSTOM_RED
404
error ""

1.39 PUT /traits/CUSTOM_RED
201 | location: /traits/CUSTOM_RED | last-modified, no-cache

1.39 PUT /traits/CUSTOM_RED
204 | location: /traits/CUSTOM_RED | last-modified, no-cache

1.39 GET /traits/CUSTOM_RED
204 | last-modified, no-cache

1.14 GET /traits/CUSTOM_RED
204

1.39 GET /traits/CUSTOM_BLUE
404
error "placement.undefined_code"

1.39 PUT /traits/HW_CPU_X86_AVX
400
error "placement.undefined_code"

1.39 GET /traits?name=in:CUSTOM_RED,HW_CPU_X86_AVX,CUSTOM_BLUE
200 | last-modified, no-cache
{"traits":["HW_CPU_X86_AVX","CUSTOM_RED"]}

1.39 GET /traits?name=startswith:CUSTOM_
200 | last-modified, no-cache
{"traits":["CUSTOM_RED"]}

1.39 GET /traits?name=CUSTOM_RED
400
error "placement.undefined_code"

1.39 GET /traits?associated=perhaps
400
error "placement.undefined_code"

1.39 GET /traits?colour=red
400
error "placement.undefined_code"

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

1.39 PUT /resource_providers/$host/traits {"resource_provider_generation":0,"traits":["HW_CPU_X86_AVX","CUSTOM_RED"]}
200 | last-modified, no-cache
{"resource_provider_generation":1,"traits":["HW_CPU_X86_AVX","CUSTOM_RED"]}

1.39 GET /resource_providers/$host/traits
200 | last-modified, no-cache
{"resource_provider_generation":1,"traits":["HW_CPU_X86_AVX","CUSTOM_RED"]}

1.39 GET /traits?associated=true
200 | last-modified, no-cache
{"traits":["HW_CPU_X86_AVX","CUSTOM_RED"]}

1.39 PUT /resource_providers/$host/traits {"resource_provider_generation":0,"traits":[]}
409
error "placement.concurrent_update"

1.39 PUT /resource_providers/$host/traits {"resource_provider_generation":1,"traits":["CUSTOM_BLUE"]}
400
error "placement.undefined_code"

1.39 PUT /resource_providers/$host/traits {"traits":[]}
400
error "placement.undefined_code"

1.39 PUT /resource_providers/$nobody/traits {"resource_provider_generation":0,"traits":[]}
404
error "placement.undefined_code"

1.39 GET /resource_providers/$nobody/traits
404
error "placement.undefined_code"

1.39 DELETE /traits/CUSTOM_RED
409
error "placement.undefined_code"

1.39 DELETE /traits/HW_CPU_X86_AVX
400
error "placement.undefined_code"

1.39 GET /resource_providers?required=CUSTOM_RED,!CUSTOM_NOPE
400
error "placement.undefined_code"

1.39 GET /resource_providers?required=in:CUSTOM_RED,HW_CPU_X86_AVX512F&required=!HW_CPU_X86_SSE
200 | last-modified, no-cache
{
  "resource_providers": [
    {
      "generation": 1,
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

1.39 GET /resource_providers?required=!CUSTOM_RED
200 | last-modified, no-cache
{"resource_providers":[]}

1.39 DELETE /resource_providers/$host/traits
204

1.39 DELETE /traits/CUSTOM_RED
204

1.39 GET /resource_providers?required=CUSTOM_RED
400
error "placement.undefined_code"

# Aggregates: with a generation since 1.19.
1.0 GET /resource_providers/$host/aggregates
404
error ""

1.1 PUT /resource_providers/$host/aggregates ["$rack"]
200
{"aggregates":["$rack"]}

1.18 GET /resource_providers/$host/aggregates
200 | last-modified, no-cache
{"aggregates":["$rack"]}

1.39 GET /resource_providers/$host/aggregates
200 | last-modified, no-cache
{"aggregates":["$rack"],"resource_provider_generation":2}

1.39 PUT /resource_providers/$host/aggregates {"aggregates":["$rack","$row"],"resource_provider_generation":2}
200 | last-modified, no-cache
{"aggregates":["$rack","$row"],"resource_provider_generation":3}

1.39 PUT /resource_providers/$host/aggregates {"aggregates":[],"resource_provider_generation":2}
409
error "placement.concurrent_update"

1.39 PUT /resource_providers/$host/aggregates {"aggregates":["x"],"resource_provider_generation":3}
400
error "placement.undefined_code"

1.39 PUT /resource_providers/$host/aggregates ["$rack"]
400
error "placement.undefined_code"

1.39 PUT /resource_providers/$nobody/aggregates ["$rack"]
404
error "placement.undefined_code"

1.39 GET /resource_providers?member_of=in:$row,$nobody
200 | last-modified, no-cache
{
  "resource_providers": [
    {
      "generation": 3,
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

1.39 GET /resource_providers?member_of=!$row
200 | last-modified, no-cache
{"resource_providers":[]}

1.39 GET /resource_providers?member_of=x
400
error "placement.undefined_code"
