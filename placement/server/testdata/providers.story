# The version document is for everybody.
1.0 GET /
200
{"versions":[{"id":"v1.0","links":[{"href":"","rel":"self"}],"max_version":"1.39","min_version":"1.0","status":"CURRENT"}]}

# A tree: a host, a NUMA node, a device.
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

1.39 POST /resource_providers {"name":"host_numa0","uuid":"$numa","parent_provider_uuid":"$host"}
200 | location: /resource_providers/$numa | last-modified, no-cache
{
  "generation": 0,
  "links": [
    {"href":"/resource_providers/$numa","rel":"self"},
    {"href":"/resource_providers/$numa/inventories","rel":"inventories"},
    {"href":"/resource_providers/$numa/usages","rel":"usages"},
    {"href":"/resource_providers/$numa/aggregates","rel":"aggregates"},
    {"href":"/resource_providers/$numa/traits","rel":"traits"},
    {"href":"/resource_providers/$numa/allocations","rel":"allocations"}
  ],
  "name": "host_numa0",
  "parent_provider_uuid": "$host",
  "root_provider_uuid": "$host",
  "uuid": "$numa"
}

1.19 POST /resource_providers {"name":"host_0000:3b:00.0","uuid":"$dev","parent_provider_uuid":"$numa"}
201 | location: /resource_providers/$dev

1.39 POST /resource_providers {"name":"other","uuid":"$other"}
200 | location: /resource_providers/$other | last-modified, no-cache
{
  "generation": 0,
  "links": [
    {"href":"/resource_providers/$other","rel":"self"},
    {"href":"/resource_providers/$other/inventories","rel":"inventories"},
    {"href":"/resource_providers/$other/usages","rel":"usages"},
    {"href":"/resource_providers/$other/aggregates","rel":"aggregates"},
    {"href":"/resource_providers/$other/traits","rel":"traits"},
    {"href":"/resource_providers/$other/allocations","rel":"allocations"}
  ],
  "name": "other",
  "parent_provider_uuid": null,
  "root_provider_uuid": "$other",
  "uuid": "$other"
}

# Names and UUIDs are given once.
1.39 POST /resource_providers {"name":"host","uuid":"$new"}
409
error "placement.duplicate_name"

1.39 POST /resource_providers {"name":"new","uuid":"$host"}
409
error "placement.duplicate_name"

# Words that make no sense.
1.39 POST /resource_providers {"name":"new","parent_provider_uuid":"$nobody"}
400
error "placement.undefined_code"

1.39 POST /resource_providers {"name":"new","uuid":"$new","parent_provider_uuid":"$new"}
400
error "placement.undefined_code"

1.39 POST /resource_providers {"name":"new","colour":"red"}
400
error "placement.undefined_code"

1.39 POST /resource_providers {"name":7}
400
error "placement.undefined_code"

1.39 POST /resource_providers {"uuid":"$new"}
400
error "placement.undefined_code"

1.39 POST /resource_providers {"name":"new","uuid":"x"}
400
error "placement.undefined_code"

1.13 POST /resource_providers {"name":"new","parent_provider_uuid":"$host"}
400
error ""

1.39 POST /resource_providers {"name":
400
error "placement.undefined_code"

1.39 POST /resource_providers ["host"]
400
error "placement.undefined_code"

# How each microversion shows a provider.
1.0 GET /resource_providers/$numa
200
{
  "generation": 0,
  "links": [
    {"href":"/resource_providers/$numa","rel":"self"},
    {"href":"/resource_providers/$numa/inventories","rel":"inventories"},
    {"href":"/resource_providers/$numa/usages","rel":"usages"}
  ],
  "name": "host_numa0",
  "uuid": "$numa"
}

1.1 GET /resource_providers/$numa
200
{
  "generation": 0,
  "links": [
    {"href":"/resource_providers/$numa","rel":"self"},
    {"href":"/resource_providers/$numa/inventories","rel":"inventories"},
    {"href":"/resource_providers/$numa/usages","rel":"usages"},
    {"href":"/resource_providers/$numa/aggregates","rel":"aggregates"}
  ],
  "name": "host_numa0",
  "uuid": "$numa"
}

1.6 GET /resource_providers/$numa
200
{
  "generation": 0,
  "links": [
    {"href":"/resource_providers/$numa","rel":"self"},
    {"href":"/resource_providers/$numa/inventories","rel":"inventories"},
    {"href":"/resource_providers/$numa/usages","rel":"usages"},
    {"href":"/resource_providers/$numa/aggregates","rel":"aggregates"},
    {"href":"/resource_providers/$numa/traits","rel":"traits"}
  ],
  "name": "host_numa0",
  "uuid": "$numa"
}

1.11 GET /resource_providers/$numa
200
{
  "generation": 0,
  "links": [
    {"href":"/resource_providers/$numa","rel":"self"},
    {"href":"/resource_providers/$numa/inventories","rel":"inventories"},
    {"href":"/resource_providers/$numa/usages","rel":"usages"},
    {"href":"/resource_providers/$numa/aggregates","rel":"aggregates"},
    {"href":"/resource_providers/$numa/traits","rel":"traits"},
    {"href":"/resource_providers/$numa/allocations","rel":"allocations"}
  ],
  "name": "host_numa0",
  "uuid": "$numa"
}

1.14 GET /resource_providers/$numa
200
{
  "generation": 0,
  "links": [
    {"href":"/resource_providers/$numa","rel":"self"},
    {"href":"/resource_providers/$numa/inventories","rel":"inventories"},
    {"href":"/resource_providers/$numa/usages","rel":"usages"},
    {"href":"/resource_providers/$numa/aggregates","rel":"aggregates"},
    {"href":"/resource_providers/$numa/traits","rel":"traits"},
    {"href":"/resource_providers/$numa/allocations","rel":"allocations"}
  ],
  "name": "host_numa0",
  "parent_provider_uuid": "$host",
  "root_provider_uuid": "$host",
  "uuid": "$numa"
}

1.15 GET /resource_providers/$numa
200 | last-modified, no-cache
{
  "generation": 0,
  "links": [
    {"href":"/resource_providers/$numa","rel":"self"},
    {"href":"/resource_providers/$numa/inventories","rel":"inventories"},
    {"href":"/resource_providers/$numa/usages","rel":"usages"},
    {"href":"/resource_providers/$numa/aggregates","rel":"aggregates"},
    {"href":"/resource_providers/$numa/traits","rel":"traits"},
    {"href":"/resource_providers/$numa/allocations","rel":"allocations"}
  ],
  "name": "host_numa0",
  "parent_provider_uuid": "$host",
  "root_provider_uuid": "$host",
  "uuid": "$numa"
}

1.39 GET /resource_providers/$nobody
404
error "placement.undefined_code"

# Lists.
1.0 GET /resource_providers?name=host
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
    }
  ]
}

1.14 GET /resource_providers?in_tree=$dev
200
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
        {"href":"/resource_providers/$numa","rel":"self"},
        {"href":"/resource_providers/$numa/inventories","rel":"inventories"},
        {"href":"/resource_providers/$numa/usages","rel":"usages"},
        {"href":"/resource_providers/$numa/aggregates","rel":"aggregates"},
        {"href":"/resource_providers/$numa/traits","rel":"traits"},
        {"href":"/resource_providers/$numa/allocations","rel":"allocations"}
      ],
      "name": "host_numa0",
      "parent_provider_uuid": "$host",
      "root_provider_uuid": "$host",
      "uuid": "$numa"
    },
    {
      "generation": 0,
      "links": [
        {"href":"/resource_providers/$dev","rel":"self"},
        {"href":"/resource_providers/$dev/inventories","rel":"inventories"},
        {"href":"/resource_providers/$dev/usages","rel":"usages"},
        {"href":"/resource_providers/$dev/aggregates","rel":"aggregates"},
        {"href":"/resource_providers/$dev/traits","rel":"traits"},
        {"href":"/resource_providers/$dev/allocations","rel":"allocations"}
      ],
      "name": "host_0000:3b:00.0",
      "parent_provider_uuid": "$numa",
      "root_provider_uuid": "$host",
      "uuid": "$dev"
    }
  ]
}

1.39 GET /resource_providers?in_tree=$nobody
200 | last-modified, no-cache
{"resource_providers":[]}

1.39 GET /resource_providers?uuid=$dev&name=host
200 | last-modified, no-cache
{"resource_providers":[]}

1.39 GET /resource_providers?uuid=x
400
error "placement.undefined_code"

1.39 GET /resource_providers?limit=1
400
error "placement.undefined_code"

1.13 GET /resource_providers?in_tree=$dev
400
error ""

# Renaming keeps the place in the tree; a null parent before 1.37 does not move.
1.39 PUT /resource_providers/$dev {"name":"renamed"}
200 | last-modified, no-cache
{
  "generation": 0,
  "links": [
    {"href":"/resource_providers/$dev","rel":"self"},
    {"href":"/resource_providers/$dev/inventories","rel":"inventories"},
    {"href":"/resource_providers/$dev/usages","rel":"usages"},
    {"href":"/resource_providers/$dev/aggregates","rel":"aggregates"},
    {"href":"/resource_providers/$dev/traits","rel":"traits"},
    {"href":"/resource_providers/$dev/allocations","rel":"allocations"}
  ],
  "name": "renamed",
  "parent_provider_uuid": "$numa",
  "root_provider_uuid": "$host",
  "uuid": "$dev"
}

1.39 PUT /resource_providers/$dev {"name":"host"}
409
error "placement.duplicate_name"

1.36 PUT /resource_providers/$dev {"name":"renamed","parent_provider_uuid":null}
400
error "placement.undefined_code"

1.36 PUT /resource_providers/$dev {"name":"renamed","parent_provider_uuid":"$other"}
400
error "placement.undefined_code"

1.39 PUT /resource_providers/$numa {"name":"host_numa0","parent_provider_uuid":"$dev"}
400
error "placement.undefined_code"

# Moving takes all that lies below along.
1.39 PUT /resource_providers/$numa {"name":"host_numa0","parent_provider_uuid":"$other"}
200 | last-modified, no-cache
{
  "generation": 0,
  "links": [
    {"href":"/resource_providers/$numa","rel":"self"},
    {"href":"/resource_providers/$numa/inventories","rel":"inventories"},
    {"href":"/resource_providers/$numa/usages","rel":"usages"},
    {"href":"/resource_providers/$numa/aggregates","rel":"aggregates"},
    {"href":"/resource_providers/$numa/traits","rel":"traits"},
    {"href":"/resource_providers/$numa/allocations","rel":"allocations"}
  ],
  "name": "host_numa0",
  "parent_provider_uuid": "$other",
  "root_provider_uuid": "$other",
  "uuid": "$numa"
}

1.39 GET /resource_providers?in_tree=$dev&name=renamed
200 | last-modified, no-cache
{
  "resource_providers": [
    {
      "generation": 0,
      "links": [
        {"href":"/resource_providers/$dev","rel":"self"},
        {"href":"/resource_providers/$dev/inventories","rel":"inventories"},
        {"href":"/resource_providers/$dev/usages","rel":"usages"},
        {"href":"/resource_providers/$dev/aggregates","rel":"aggregates"},
        {"href":"/resource_providers/$dev/traits","rel":"traits"},
        {"href":"/resource_providers/$dev/allocations","rel":"allocations"}
      ],
      "name": "renamed",
      "parent_provider_uuid": "$numa",
      "root_provider_uuid": "$other",
      "uuid": "$dev"
    }
  ]
}

1.39 PUT /resource_providers/$numa {"name":"host_numa0","parent_provider_uuid":null}
200 | last-modified, no-cache
{
  "generation": 0,
  "links": [
    {"href":"/resource_providers/$numa","rel":"self"},
    {"href":"/resource_providers/$numa/inventories","rel":"inventories"},
    {"href":"/resource_providers/$numa/usages","rel":"usages"},
    {"href":"/resource_providers/$numa/aggregates","rel":"aggregates"},
    {"href":"/resource_providers/$numa/traits","rel":"traits"},
    {"href":"/resource_providers/$numa/allocations","rel":"allocations"}
  ],
  "name": "host_numa0",
  "parent_provider_uuid": null,
  "root_provider_uuid": "$numa",
  "uuid": "$numa"
}

1.39 PUT /resource_providers/$nobody {"colour":"red"}
404
error "placement.undefined_code"

1.39 PUT /resource_providers/$host {"colour":"red"}
400
error "placement.undefined_code"

# Parents stay while they have children.
1.39 DELETE /resource_providers/$numa
409
error "placement.resource_provider.cannot_delete_parent"

1.39 DELETE /resource_providers/$dev
204

1.39 DELETE /resource_providers/$numa
204

1.39 DELETE /resource_providers/$numa
404
error "placement.undefined_code"
