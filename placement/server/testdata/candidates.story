# Two hosts with two NICs each, a plain host, and a disk that is shared by the hosts of one rack.
1.39 PUT /resource_classes/CUSTOM_VF
201 | location: /resource_classes/CUSTOM_VF

1.39 PUT /traits/CUSTOM_PHYSNET_A
201 | location: /traits/CUSTOM_PHYSNET_A | last-modified, no-cache

1.39 PUT /traits/CUSTOM_PHYSNET_B
201 | location: /traits/CUSTOM_PHYSNET_B | last-modified, no-cache

1.39 POST /resource_providers {"name":"h1","uuid":"$h1"}
200 | location: /resource_providers/$h1 | last-modified, no-cache
{
  "generation": 0,
  "links": [
    {"href":"/resource_providers/$h1","rel":"self"},
    {"href":"/resource_providers/$h1/inventories","rel":"inventories"},
    {"href":"/resource_providers/$h1/usages","rel":"usages"},
    {"href":"/resource_providers/$h1/aggregates","rel":"aggregates"},
    {"href":"/resource_providers/$h1/traits","rel":"traits"},
    {"href":"/resource_providers/$h1/allocations","rel":"allocations"}
  ],
  "name": "h1",
  "parent_provider_uuid": null,
  "root_provider_uuid": "$h1",
  "uuid": "$h1"
}

1.39 POST /resource_providers {"name":"h1_nic0","uuid":"$h1nic0","parent_provider_uuid":"$h1"}
200 | location: /resource_providers/$h1nic0 | last-modified, no-cache
{
  "generation": 0,
  "links": [
    {"href":"/resource_providers/$h1nic0","rel":"self"},
    {"href":"/resource_providers/$h1nic0/inventories","rel":"inventories"},
    {"href":"/resource_providers/$h1nic0/usages","rel":"usages"},
    {"href":"/resource_providers/$h1nic0/aggregates","rel":"aggregates"},
    {"href":"/resource_providers/$h1nic0/traits","rel":"traits"},
    {"href":"/resource_providers/$h1nic0/allocations","rel":"allocations"}
  ],
  "name": "h1_nic0",
  "parent_provider_uuid": "$h1",
  "root_provider_uuid": "$h1",
  "uuid": "$h1nic0"
}

1.39 POST /resource_providers {"name":"h1_nic1","uuid":"$h1nic1","parent_provider_uuid":"$h1"}
200 | location: /resource_providers/$h1nic1 | last-modified, no-cache
{
  "generation": 0,
  "links": [
    {"href":"/resource_providers/$h1nic1","rel":"self"},
    {"href":"/resource_providers/$h1nic1/inventories","rel":"inventories"},
    {"href":"/resource_providers/$h1nic1/usages","rel":"usages"},
    {"href":"/resource_providers/$h1nic1/aggregates","rel":"aggregates"},
    {"href":"/resource_providers/$h1nic1/traits","rel":"traits"},
    {"href":"/resource_providers/$h1nic1/allocations","rel":"allocations"}
  ],
  "name": "h1_nic1",
  "parent_provider_uuid": "$h1",
  "root_provider_uuid": "$h1",
  "uuid": "$h1nic1"
}

1.19 POST /resource_providers {"name":"h2","uuid":"$h2"}
201 | location: /resource_providers/$h2

1.19 POST /resource_providers {"name":"h2_nic0","uuid":"$h2nic0","parent_provider_uuid":"$h2"}
201 | location: /resource_providers/$h2nic0

1.19 POST /resource_providers {"name":"plain","uuid":"$plain"}
201 | location: /resource_providers/$plain

1.19 POST /resource_providers {"name":"disk","uuid":"$disk"}
201 | location: /resource_providers/$disk

# Nothing is there yet, and the answer says why.
1.39 GET /allocation_candidates?resources=VCPU:1
200 | last-modified, no-cache
{"allocation_requests":[],"provider_summaries":{}}

1.39 PUT /resource_providers/$h1/inventories {"resource_provider_generation":0,"inventories":{"VCPU":{"total":8},"MEMORY_MB":{"total":4096}}}
200 | last-modified, no-cache
{
  "inventories": {
    "MEMORY_MB": {"allocation_ratio":1.0,"max_unit":2147483647,"min_unit":1,"reserved":0,"step_size":1,"total":4096},
    "VCPU": {"allocation_ratio":1.0,"max_unit":2147483647,"min_unit":1,"reserved":0,"step_size":1,"total":8}
  },
  "resource_provider_generation": 1
}

1.39 PUT /resource_providers/$h2/inventories {"resource_provider_generation":0,"inventories":{"VCPU":{"total":8},"MEMORY_MB":{"total":4096}}}
200 | last-modified, no-cache
{
  "inventories": {
    "MEMORY_MB": {"allocation_ratio":1.0,"max_unit":2147483647,"min_unit":1,"reserved":0,"step_size":1,"total":4096},
    "VCPU": {"allocation_ratio":1.0,"max_unit":2147483647,"min_unit":1,"reserved":0,"step_size":1,"total":8}
  },
  "resource_provider_generation": 1
}

1.39 PUT /resource_providers/$plain/inventories {"resource_provider_generation":0,"inventories":{"VCPU":{"total":2},"DISK_GB":{"total":10}}}
200 | last-modified, no-cache
{
  "inventories": {
    "DISK_GB": {"allocation_ratio":1.0,"max_unit":2147483647,"min_unit":1,"reserved":0,"step_size":1,"total":10},
    "VCPU": {"allocation_ratio":1.0,"max_unit":2147483647,"min_unit":1,"reserved":0,"step_size":1,"total":2}
  },
  "resource_provider_generation": 1
}

1.39 PUT /resource_providers/$disk/inventories {"resource_provider_generation":0,"inventories":{"DISK_GB":{"total":1000}}}
200 | last-modified, no-cache
{
  "inventories": {"DISK_GB":{"allocation_ratio":1.0,"max_unit":2147483647,"min_unit":1,"reserved":0,"step_size":1,"total":1000}},
  "resource_provider_generation": 1
}

1.39 PUT /resource_providers/$disk/traits {"resource_provider_generation":1,"traits":["MISC_SHARES_VIA_AGGREGATE"]}
200 | last-modified, no-cache
{"resource_provider_generation":2,"traits":["MISC_SHARES_VIA_AGGREGATE"]}

1.39 PUT /resource_providers/$disk/aggregates {"resource_provider_generation":2,"aggregates":["$rack"]}
200 | last-modified, no-cache
{"aggregates":["$rack"],"resource_provider_generation":3}

1.39 PUT /resource_providers/$h1/aggregates {"resource_provider_generation":1,"aggregates":["$rack"]}
200 | last-modified, no-cache
{"aggregates":["$rack"],"resource_provider_generation":2}

1.39 PUT /resource_providers/$h1nic0/inventories {"resource_provider_generation":0,"inventories":{"CUSTOM_VF":{"total":4},"NET_BW_EGR_KILOBIT_PER_SEC":{"total":1000}}}
200 | last-modified, no-cache
{
  "inventories": {
    "CUSTOM_VF": {"allocation_ratio":1.0,"max_unit":2147483647,"min_unit":1,"reserved":0,"step_size":1,"total":4},
    "NET_BW_EGR_KILOBIT_PER_SEC": {"allocation_ratio":1.0,"max_unit":2147483647,"min_unit":1,"reserved":0,"step_size":1,"total":1000}
  },
  "resource_provider_generation": 1
}

1.39 PUT /resource_providers/$h1nic1/inventories {"resource_provider_generation":0,"inventories":{"CUSTOM_VF":{"total":4},"NET_BW_EGR_KILOBIT_PER_SEC":{"total":1000}}}
200 | last-modified, no-cache
{
  "inventories": {
    "CUSTOM_VF": {"allocation_ratio":1.0,"max_unit":2147483647,"min_unit":1,"reserved":0,"step_size":1,"total":4},
    "NET_BW_EGR_KILOBIT_PER_SEC": {"allocation_ratio":1.0,"max_unit":2147483647,"min_unit":1,"reserved":0,"step_size":1,"total":1000}
  },
  "resource_provider_generation": 1
}

1.39 PUT /resource_providers/$h2nic0/inventories {"resource_provider_generation":0,"inventories":{"CUSTOM_VF":{"total":4}}}
200 | last-modified, no-cache
{
  "inventories": {"CUSTOM_VF":{"allocation_ratio":1.0,"max_unit":2147483647,"min_unit":1,"reserved":0,"step_size":1,"total":4}},
  "resource_provider_generation": 1
}

1.39 PUT /resource_providers/$h1nic0/traits {"resource_provider_generation":1,"traits":["CUSTOM_PHYSNET_A"]}
200 | last-modified, no-cache
{"resource_provider_generation":2,"traits":["CUSTOM_PHYSNET_A"]}

1.39 PUT /resource_providers/$h1nic1/traits {"resource_provider_generation":1,"traits":["CUSTOM_PHYSNET_B"]}
200 | last-modified, no-cache
{"resource_provider_generation":2,"traits":["CUSTOM_PHYSNET_B"]}

1.39 PUT /resource_providers/$h2nic0/traits {"resource_provider_generation":1,"traits":["CUSTOM_PHYSNET_B"]}
200 | last-modified, no-cache
{"resource_provider_generation":2,"traits":["CUSTOM_PHYSNET_B"]}

# How each microversion shows a candidate.
1.39 GET /allocation_candidates?resources=VCPU:1,DISK_GB:5&in_tree=$plain
200 | last-modified, no-cache
{
  "allocation_requests": [
    {
      "allocations": {"$plain":{"resources":{"DISK_GB":5,"VCPU":1}}},
      "mappings": {"":["$plain"]}
    }
  ],
  "provider_summaries": {
    "$plain": {
      "parent_provider_uuid": null,
      "resources": {"DISK_GB":{"capacity":10,"used":0},"VCPU":{"capacity":2,"used":0}},
      "root_provider_uuid": "$plain",
      "traits": []
    }
  }
}

1.33 GET /allocation_candidates?resources=VCPU:1,DISK_GB:5&in_tree=$plain
200 | last-modified, no-cache
{
  "allocation_requests": [{"allocations":{"$plain":{"resources":{"DISK_GB":5,"VCPU":1}}}}],
  "provider_summaries": {
    "$plain": {
      "parent_provider_uuid": null,
      "resources": {"DISK_GB":{"capacity":10,"used":0},"VCPU":{"capacity":2,"used":0}},
      "root_provider_uuid": "$plain",
      "traits": []
    }
  }
}

1.17 GET /allocation_candidates?resources=DISK_GB:5&limit=1&required=!MISC_SHARES_VIA_AGGREGATE
400
error ""

1.16 GET /allocation_candidates?resources=VCPU:1,DISK_GB:600
200 | last-modified, no-cache
{
  "allocation_requests": [
    {
      "allocations": {"$h1":{"resources":{"VCPU":1}},"$disk":{"resources":{"DISK_GB":600}}}
    }
  ],
  "provider_summaries": {
    "$h1": {"resources":{"VCPU":{"capacity":8,"used":0}}},
    "$disk": {"resources":{"DISK_GB":{"capacity":1000,"used":0}}}
  }
}

1.11 GET /allocation_candidates?resources=VCPU:1,DISK_GB:600
200
{
  "allocation_requests": [
    {
      "allocations": [
        {"resource_provider":{"uuid":"$h1"},"resources":{"VCPU":1}},
        {"resource_provider":{"uuid":"$disk"},"resources":{"DISK_GB":600}}
      ]
    }
  ],
  "provider_summaries": {
    "$h1": {"resources":{"VCPU":{"capacity":8,"used":0}}},
    "$disk": {"resources":{"DISK_GB":{"capacity":1000,"used":0}}}
  }
}

1.9 GET /allocation_candidates?resources=VCPU:1
404
error ""

# A sharing provider: its tree is told of as well.
1.39 GET /allocation_candidates?resources=VCPU:1,DISK_GB:600
200 | last-modified, no-cache
{
  "allocation_requests": [
    {
      "allocations": {"$h1":{"resources":{"VCPU":1}},"$disk":{"resources":{"DISK_GB":600}}},
      "mappings": {"":["$disk","$h1"]}
    }
  ],
  "provider_summaries": {
    "$h1nic1": {
      "parent_provider_uuid": "$h1",
      "resources": {"CUSTOM_VF":{"capacity":4,"used":0},"NET_BW_EGR_KILOBIT_PER_SEC":{"capacity":1000,"used":0}},
      "root_provider_uuid": "$h1",
      "traits": ["CUSTOM_PHYSNET_B"]
    },
    "$h1": {
      "parent_provider_uuid": null,
      "resources": {"MEMORY_MB":{"capacity":4096,"used":0},"VCPU":{"capacity":8,"used":0}},
      "root_provider_uuid": "$h1",
      "traits": []
    },
    "$disk": {
      "parent_provider_uuid": null,
      "resources": {"DISK_GB":{"capacity":1000,"used":0}},
      "root_provider_uuid": "$disk",
      "traits": ["MISC_SHARES_VIA_AGGREGATE"]
    },
    "$h1nic0": {
      "parent_provider_uuid": "$h1",
      "resources": {"CUSTOM_VF":{"capacity":4,"used":0},"NET_BW_EGR_KILOBIT_PER_SEC":{"capacity":1000,"used":0}},
      "root_provider_uuid": "$h1",
      "traits": ["CUSTOM_PHYSNET_A"]
    }
  }
}

# Groups with suffixes; the summaries tell of whole trees.
1.39 GET /allocation_candidates?resources=VCPU:1&resources_NIC=CUSTOM_VF:1&required_NIC=CUSTOM_PHYSNET_A
200 | last-modified, no-cache
{
  "allocation_requests": [
    {
      "allocations": {"$h1":{"resources":{"VCPU":1}},"$h1nic0":{"resources":{"CUSTOM_VF":1}}},
      "mappings": {"":["$h1"],"_NIC":["$h1nic0"]}
    }
  ],
  "provider_summaries": {
    "$h1nic1": {
      "parent_provider_uuid": "$h1",
      "resources": {"CUSTOM_VF":{"capacity":4,"used":0},"NET_BW_EGR_KILOBIT_PER_SEC":{"capacity":1000,"used":0}},
      "root_provider_uuid": "$h1",
      "traits": ["CUSTOM_PHYSNET_B"]
    },
    "$h1": {
      "parent_provider_uuid": null,
      "resources": {"MEMORY_MB":{"capacity":4096,"used":0},"VCPU":{"capacity":8,"used":0}},
      "root_provider_uuid": "$h1",
      "traits": []
    },
    "$h1nic0": {
      "parent_provider_uuid": "$h1",
      "resources": {"CUSTOM_VF":{"capacity":4,"used":0},"NET_BW_EGR_KILOBIT_PER_SEC":{"capacity":1000,"used":0}},
      "root_provider_uuid": "$h1",
      "traits": ["CUSTOM_PHYSNET_A"]
    }
  }
}

1.39 GET /allocation_candidates?resources_1=CUSTOM_VF:1&resources_2=CUSTOM_VF:1&group_policy=isolate
200 | last-modified, no-cache
{
  "allocation_requests": [
    {
      "allocations": {"$h1nic1":{"resources":{"CUSTOM_VF":1}},"$h1nic0":{"resources":{"CUSTOM_VF":1}}},
      "mappings": {"_1":["$h1nic0"],"_2":["$h1nic1"]}
    },
    {
      "allocations": {"$h1nic1":{"resources":{"CUSTOM_VF":1}},"$h1nic0":{"resources":{"CUSTOM_VF":1}}},
      "mappings": {"_1":["$h1nic1"],"_2":["$h1nic0"]}
    }
  ],
  "provider_summaries": {
    "$h1nic1": {
      "parent_provider_uuid": "$h1",
      "resources": {"CUSTOM_VF":{"capacity":4,"used":0},"NET_BW_EGR_KILOBIT_PER_SEC":{"capacity":1000,"used":0}},
      "root_provider_uuid": "$h1",
      "traits": ["CUSTOM_PHYSNET_B"]
    },
    "$h1": {
      "parent_provider_uuid": null,
      "resources": {"MEMORY_MB":{"capacity":4096,"used":0},"VCPU":{"capacity":8,"used":0}},
      "root_provider_uuid": "$h1",
      "traits": []
    },
    "$h1nic0": {
      "parent_provider_uuid": "$h1",
      "resources": {"CUSTOM_VF":{"capacity":4,"used":0},"NET_BW_EGR_KILOBIT_PER_SEC":{"capacity":1000,"used":0}},
      "root_provider_uuid": "$h1",
      "traits": ["CUSTOM_PHYSNET_A"]
    }
  }
}

1.39 GET /allocation_candidates?resources_1=CUSTOM_VF:3&resources_2=CUSTOM_VF:3&group_policy=none&in_tree_1=$h2
200 | last-modified, no-cache
{"allocation_requests":[],"provider_summaries":{}}

# A VF and its bandwidth from the same NIC.
1.39 GET /allocation_candidates?resources_VF=CUSTOM_VF:1&resources_BW=NET_BW_EGR_KILOBIT_PER_SEC:500&group_policy=none&same_subtree=_VF,_BW
200 | last-modified, no-cache
{
  "allocation_requests": [
    {
      "allocations": {"$h1nic0":{"resources":{"CUSTOM_VF":1,"NET_BW_EGR_KILOBIT_PER_SEC":500}}},
      "mappings": {"_BW":["$h1nic0"],"_VF":["$h1nic0"]}
    },
    {
      "allocations": {"$h1nic1":{"resources":{"CUSTOM_VF":1,"NET_BW_EGR_KILOBIT_PER_SEC":500}}},
      "mappings": {"_BW":["$h1nic1"],"_VF":["$h1nic1"]}
    }
  ],
  "provider_summaries": {
    "$h1nic1": {
      "parent_provider_uuid": "$h1",
      "resources": {"CUSTOM_VF":{"capacity":4,"used":0},"NET_BW_EGR_KILOBIT_PER_SEC":{"capacity":1000,"used":0}},
      "root_provider_uuid": "$h1",
      "traits": ["CUSTOM_PHYSNET_B"]
    },
    "$h1": {
      "parent_provider_uuid": null,
      "resources": {"MEMORY_MB":{"capacity":4096,"used":0},"VCPU":{"capacity":8,"used":0}},
      "root_provider_uuid": "$h1",
      "traits": []
    },
    "$h1nic0": {
      "parent_provider_uuid": "$h1",
      "resources": {"CUSTOM_VF":{"capacity":4,"used":0},"NET_BW_EGR_KILOBIT_PER_SEC":{"capacity":1000,"used":0}},
      "root_provider_uuid": "$h1",
      "traits": ["CUSTOM_PHYSNET_A"]
    }
  }
}

# A group without resources that only has to be there.
1.39 GET /allocation_candidates?resources_VF=CUSTOM_VF:1&required_PN=CUSTOM_PHYSNET_A&group_policy=none&same_subtree=_VF,_PN
200 | last-modified, no-cache
{
  "allocation_requests": [
    {
      "allocations": {"$h1nic0":{"resources":{"CUSTOM_VF":1}}},
      "mappings": {"_PN":["$h1nic0"],"_VF":["$h1nic0"]}
    }
  ],
  "provider_summaries": {
    "$h1nic1": {
      "parent_provider_uuid": "$h1",
      "resources": {"CUSTOM_VF":{"capacity":4,"used":0},"NET_BW_EGR_KILOBIT_PER_SEC":{"capacity":1000,"used":0}},
      "root_provider_uuid": "$h1",
      "traits": ["CUSTOM_PHYSNET_B"]
    },
    "$h1": {
      "parent_provider_uuid": null,
      "resources": {"MEMORY_MB":{"capacity":4096,"used":0},"VCPU":{"capacity":8,"used":0}},
      "root_provider_uuid": "$h1",
      "traits": []
    },
    "$h1nic0": {
      "parent_provider_uuid": "$h1",
      "resources": {"CUSTOM_VF":{"capacity":4,"used":0},"NET_BW_EGR_KILOBIT_PER_SEC":{"capacity":1000,"used":0}},
      "root_provider_uuid": "$h1",
      "traits": ["CUSTOM_PHYSNET_A"]
    }
  }
}

# Any of two traits; a trait the root must not have.
1.39 GET /allocation_candidates?resources=CUSTOM_VF:1&required=in:CUSTOM_PHYSNET_A,CUSTOM_PHYSNET_B&required=!CUSTOM_PHYSNET_B
200 | last-modified, no-cache
{
  "allocation_requests": [
    {
      "allocations": {"$h1nic0":{"resources":{"CUSTOM_VF":1}}},
      "mappings": {"":["$h1nic0"]}
    }
  ],
  "provider_summaries": {
    "$h1nic1": {
      "parent_provider_uuid": "$h1",
      "resources": {"CUSTOM_VF":{"capacity":4,"used":0},"NET_BW_EGR_KILOBIT_PER_SEC":{"capacity":1000,"used":0}},
      "root_provider_uuid": "$h1",
      "traits": ["CUSTOM_PHYSNET_B"]
    },
    "$h1": {
      "parent_provider_uuid": null,
      "resources": {"MEMORY_MB":{"capacity":4096,"used":0},"VCPU":{"capacity":8,"used":0}},
      "root_provider_uuid": "$h1",
      "traits": []
    },
    "$h1nic0": {
      "parent_provider_uuid": "$h1",
      "resources": {"CUSTOM_VF":{"capacity":4,"used":0},"NET_BW_EGR_KILOBIT_PER_SEC":{"capacity":1000,"used":0}},
      "root_provider_uuid": "$h1",
      "traits": ["CUSTOM_PHYSNET_A"]
    }
  }
}

1.39 GET /allocation_candidates?resources=VCPU:8&root_required=!COMPUTE_NODE&member_of=!$rack
200 | last-modified, no-cache
{
  "allocation_requests": [{"allocations":{"$h2":{"resources":{"VCPU":8}}},"mappings":{"":["$h2"]}}],
  "provider_summaries": {
    "$h2": {
      "parent_provider_uuid": null,
      "resources": {"MEMORY_MB":{"capacity":4096,"used":0},"VCPU":{"capacity":8,"used":0}},
      "root_provider_uuid": "$h2",
      "traits": []
    },
    "$h2nic0": {
      "parent_provider_uuid": "$h2",
      "resources": {"CUSTOM_VF":{"capacity":4,"used":0}},
      "root_provider_uuid": "$h2",
      "traits": ["CUSTOM_PHYSNET_B"]
    }
  }
}

# Before 1.29 no candidate uses two providers of one tree.
1.28 GET /allocation_candidates?resources=VCPU:1,CUSTOM_VF:1
200 | last-modified, no-cache
{"allocation_requests":[],"provider_summaries":{}}

# Claims count at once, and so does their end.
1.39 PUT /allocations/$c1 {"allocations":{"$h2nic0":{"resources":{"CUSTOM_VF":4}}},"project_id":"p","user_id":"u","consumer_generation":null,"consumer_type":"INSTANCE"}
204

1.39 GET /allocation_candidates?resources=CUSTOM_VF:1&in_tree=$h2
200 | last-modified, no-cache
{"allocation_requests":[],"provider_summaries":{}}

1.39 DELETE /allocations/$c1
204

1.39 GET /allocation_candidates?resources=CUSTOM_VF:1&in_tree=$h2&limit=5
200 | last-modified, no-cache
{
  "allocation_requests": [
    {
      "allocations": {"$h2nic0":{"resources":{"CUSTOM_VF":1}}},
      "mappings": {"":["$h2nic0"]}
    }
  ],
  "provider_summaries": {
    "$h2": {
      "parent_provider_uuid": null,
      "resources": {"MEMORY_MB":{"capacity":4096,"used":0},"VCPU":{"capacity":8,"used":0}},
      "root_provider_uuid": "$h2",
      "traits": []
    },
    "$h2nic0": {
      "parent_provider_uuid": "$h2",
      "resources": {"CUSTOM_VF":{"capacity":4,"used":0}},
      "root_provider_uuid": "$h2",
      "traits": ["CUSTOM_PHYSNET_B"]
    }
  }
}

# Questions that make no sense.
1.39 GET /allocation_candidates
400
error "placement.query.missing_value"

1.39 GET /allocation_candidates?resources=NOPE:1
400
error "placement.undefined_code"

1.39 GET /allocation_candidates?resources=VCPU:1&required=CUSTOM_NOPE
400
error "placement.undefined_code"

1.39 GET /allocation_candidates?resources=VCPU:1&root_required=CUSTOM_NOPE
400
error "placement.undefined_code"

1.39 GET /allocation_candidates?resources=VCPU:1&colour=red
400
error "placement.undefined_code"

1.39 GET /allocation_candidates?resources=VCPU:1&same_subtree=_1
400
error "placement.query.bad_value"

1.39 GET /allocation_candidates?resources_1=VCPU:1&resources_2=VCPU:1
400
error "placement.undefined_code"

1.39 GET /allocation_candidates?resources=VCPU:1&root_required=COMPUTE_NODE&root_required=COMPUTE_NODE
400
error "placement.query.duplicate_key"

# A class or trait that comes into being is known at once, and one that goes is not.
1.39 PUT /traits/CUSTOM_NOPE
201 | location: /traits/CUSTOM_NOPE | last-modified, no-cache

1.39 GET /allocation_candidates?resources=VCPU:9&required=CUSTOM_NOPE
200 | last-modified, no-cache
{"allocation_requests":[],"provider_summaries":{}}

1.39 DELETE /traits/CUSTOM_NOPE
204

1.39 GET /allocation_candidates?resources=VCPU:1&required=CUSTOM_NOPE
400
error "placement.undefined_code"
