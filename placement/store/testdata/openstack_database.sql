-- A database of OpenStack Placement 8.0.0 with three providers and two consumers, as sqlite3's .dump shows it; all but two standard traits are left out.
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO alembic_version VALUES('422ece571366');
CREATE TABLE allocations (
	created_at DATETIME, 
	updated_at DATETIME, 
	id INTEGER NOT NULL, 
	resource_provider_id INTEGER NOT NULL, 
	consumer_id VARCHAR(36) NOT NULL, 
	resource_class_id INTEGER NOT NULL, 
	used INTEGER NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO allocations VALUES('2026-11-20 19:00:17.784969',NULL,4,3,'00000000-0000-4000-8000-000000000051',2,10);
INSERT INTO allocations VALUES('2026-11-20 19:00:17.902943',NULL,5,1,'00000000-0000-4000-8000-000000000050',0,2);
INSERT INTO allocations VALUES('2026-11-20 19:00:17.903123',NULL,6,2,'00000000-0000-4000-8000-000000000050',10000,1);
INSERT INTO allocations VALUES('2026-11-20 19:00:17.903260',NULL,7,2,'00000000-0000-4000-8000-000000000050',1,512);
CREATE TABLE inventories (
	created_at DATETIME, 
	updated_at DATETIME, 
	id INTEGER NOT NULL, 
	resource_provider_id INTEGER NOT NULL, 
	resource_class_id INTEGER NOT NULL, 
	total INTEGER NOT NULL, 
	reserved INTEGER NOT NULL, 
	min_unit INTEGER NOT NULL, 
	max_unit INTEGER NOT NULL, 
	step_size INTEGER NOT NULL, 
	allocation_ratio FLOAT NOT NULL, 
	PRIMARY KEY (id), 
	CONSTRAINT uniq_inventories0resource_provider_resource_class UNIQUE (resource_provider_id, resource_class_id)
);
INSERT INTO inventories VALUES('2026-11-20 19:00:17.694045','2026-11-20 19:00:17.905972',1,1,0,8,0,1,8,1,1.0);
INSERT INTO inventories VALUES('2026-11-20 19:00:17.702824','2026-11-20 19:00:17.906678',3,2,10000,4,0,1,4,1,1.0);
INSERT INTO inventories VALUES('2026-11-20 19:00:17.710984',NULL,4,3,2,100,0,1,100,1,1.0);
INSERT INTO inventories VALUES('2026-11-20 19:00:17.899777','2026-11-20 19:00:17.907028',5,2,1,4096,0,1,4096,1,1.0);
CREATE TABLE placement_aggregates (
	created_at DATETIME, 
	updated_at DATETIME, 
	id INTEGER NOT NULL, 
	uuid VARCHAR(36), 
	PRIMARY KEY (id), 
	CONSTRAINT uniq_placement_aggregates0uuid UNIQUE (uuid)
);
INSERT INTO placement_aggregates VALUES('2026-11-20 19:00:17.728384',NULL,1,'00000000-0000-4000-8000-000000000090');
CREATE TABLE projects (
	created_at DATETIME, 
	updated_at DATETIME, 
	id INTEGER NOT NULL, 
	external_id VARCHAR(255) NOT NULL, 
	PRIMARY KEY (id), 
	CONSTRAINT uniq_projects0external_id UNIQUE (external_id)
);
INSERT INTO projects VALUES('2026-11-20 19:00:17.744067',NULL,1,'proj');
CREATE TABLE resource_classes (
	created_at DATETIME, 
	updated_at DATETIME, 
	id INTEGER NOT NULL, 
	name VARCHAR(255) NOT NULL, 
	PRIMARY KEY (id), 
	CONSTRAINT uniq_resource_classes0name UNIQUE (name)
);
INSERT INTO resource_classes VALUES('2026-11-20 19:00:17.640492',NULL,0,'VCPU');
INSERT INTO resource_classes VALUES('2026-11-20 19:00:17.640496',NULL,1,'MEMORY_MB');
INSERT INTO resource_classes VALUES('2026-11-20 19:00:17.640496',NULL,2,'DISK_GB');
INSERT INTO resource_classes VALUES('2026-11-20 19:00:17.640497',NULL,3,'PCI_DEVICE');
INSERT INTO resource_classes VALUES('2026-11-20 19:00:17.640497',NULL,4,'SRIOV_NET_VF');
INSERT INTO resource_classes VALUES('2026-11-20 19:00:17.640498',NULL,5,'NUMA_SOCKET');
INSERT INTO resource_classes VALUES('2026-11-20 19:00:17.640498',NULL,6,'NUMA_CORE');
INSERT INTO resource_classes VALUES('2026-11-20 19:00:17.640499',NULL,7,'NUMA_THREAD');
INSERT INTO resource_classes VALUES('2026-11-20 19:00:17.640499',NULL,8,'NUMA_MEMORY_MB');
INSERT INTO resource_classes VALUES('2026-11-20 19:00:17.640500',NULL,9,'IPV4_ADDRESS');
INSERT INTO resource_classes VALUES('2026-11-20 19:00:17.640501',NULL,10,'VGPU');
INSERT INTO resource_classes VALUES('2026-11-20 19:00:17.640501',NULL,11,'VGPU_DISPLAY_HEAD');
INSERT INTO resource_classes VALUES('2026-11-20 19:00:17.640502',NULL,12,'NET_BW_EGR_KILOBIT_PER_SEC');
INSERT INTO resource_classes VALUES('2026-11-20 19:00:17.640502',NULL,13,'NET_BW_IGR_KILOBIT_PER_SEC');
INSERT INTO resource_classes VALUES('2026-11-20 19:00:17.640503',NULL,14,'PCPU');
INSERT INTO resource_classes VALUES('2026-11-20 19:00:17.640503',NULL,15,'MEM_ENCRYPTION_CONTEXT');
INSERT INTO resource_classes VALUES('2026-11-20 19:00:17.640504',NULL,16,'FPGA');
INSERT INTO resource_classes VALUES('2026-11-20 19:00:17.640504',NULL,17,'PGPU');
INSERT INTO resource_classes VALUES('2026-11-20 19:00:17.640505',NULL,18,'NET_PACKET_RATE_KILOPACKET_PER_SEC');
INSERT INTO resource_classes VALUES('2026-11-20 19:00:17.640505',NULL,19,'NET_PACKET_RATE_EGR_KILOPACKET_PER_SEC');
INSERT INTO resource_classes VALUES('2026-11-20 19:00:17.640506',NULL,20,'NET_PACKET_RATE_IGR_KILOPACKET_PER_SEC');
INSERT INTO resource_classes VALUES('2026-11-20 19:00:17.676741',NULL,10000,'CUSTOM_VF');
CREATE TABLE resource_provider_aggregates (
	created_at DATETIME, 
	updated_at DATETIME, 
	resource_provider_id INTEGER NOT NULL, 
	aggregate_id INTEGER NOT NULL, 
	PRIMARY KEY (resource_provider_id, aggregate_id)
);
INSERT INTO resource_provider_aggregates VALUES('2026-11-20 19:00:17.729058',NULL,1,1);
INSERT INTO resource_provider_aggregates VALUES('2026-11-20 19:00:17.735751',NULL,3,1);
CREATE TABLE resource_providers (
	created_at DATETIME, 
	updated_at DATETIME, 
	id INTEGER NOT NULL, 
	uuid VARCHAR(36) NOT NULL, 
	name VARCHAR(200), 
	generation INTEGER, 
	root_provider_id INTEGER, 
	parent_provider_id INTEGER, 
	PRIMARY KEY (id), 
	FOREIGN KEY(parent_provider_id) REFERENCES resource_providers (id), 
	FOREIGN KEY(root_provider_id) REFERENCES resource_providers (id), 
	CONSTRAINT uniq_resource_providers0name UNIQUE (name), 
	CONSTRAINT uniq_resource_providers0uuid UNIQUE (uuid)
);
INSERT INTO resource_providers VALUES('2026-11-20 19:00:17.654444','2026-11-20 19:00:17.906138',1,'00000000-0000-4000-8000-000000000001','host1',6,1,NULL);
INSERT INTO resource_providers VALUES('2026-11-20 19:00:17.663398','2026-11-20 19:00:17.907183',2,'00000000-0000-4000-8000-000000000002','host1_pf',6,1,1);
INSERT INTO resource_providers VALUES('2026-11-20 19:00:17.668247','2026-11-20 19:00:17.832526',3,'00000000-0000-4000-8000-000000000003','share',4,3,NULL);
CREATE TABLE traits (
	created_at DATETIME, 
	updated_at DATETIME, 
	id INTEGER NOT NULL, 
	name VARCHAR(255) NOT NULL, 
	PRIMARY KEY (id), 
	CONSTRAINT uniq_traits0name UNIQUE (name)
);
CREATE TABLE users (
	created_at DATETIME, 
	updated_at DATETIME, 
	id INTEGER NOT NULL, 
	external_id VARCHAR(255) NOT NULL, 
	PRIMARY KEY (id), 
	CONSTRAINT uniq_users0external_id UNIQUE (external_id)
);
INSERT INTO users VALUES('2026-11-20 19:00:17.748294',NULL,1,'user');
CREATE TABLE resource_provider_traits (
	created_at DATETIME, 
	updated_at DATETIME, 
	trait_id INTEGER NOT NULL, 
	resource_provider_id INTEGER NOT NULL, 
	PRIMARY KEY (trait_id, resource_provider_id), 
	FOREIGN KEY(resource_provider_id) REFERENCES resource_providers (id), 
	FOREIGN KEY(trait_id) REFERENCES traits (id)
);
INSERT INTO resource_provider_traits VALUES('2026-11-20 19:00:17.720773',NULL,346,2);
INSERT INTO resource_provider_traits VALUES('2026-11-20 19:00:17.721034',NULL,70,2);
CREATE TABLE consumer_types (
	created_at DATETIME, 
	updated_at DATETIME, 
	id INTEGER NOT NULL, 
	name VARCHAR(255) NOT NULL, 
	PRIMARY KEY (id), 
	CONSTRAINT uniq_consumer_types0name UNIQUE (name)
);
INSERT INTO consumer_types VALUES('2026-11-20 19:00:17.754425',NULL,1,'INSTANCE');
CREATE TABLE IF NOT EXISTS "consumers" (
	created_at DATETIME, 
	updated_at DATETIME, 
	id INTEGER NOT NULL, 
	uuid VARCHAR(36) NOT NULL, 
	project_id INTEGER NOT NULL, 
	user_id INTEGER NOT NULL, 
	generation INTEGER DEFAULT 0 NOT NULL, 
	consumer_type_id INTEGER, 
	PRIMARY KEY (id), 
	CONSTRAINT uniq_consumers0uuid UNIQUE (uuid), 
	CONSTRAINT consumers_consumer_type_id_fkey FOREIGN KEY(consumer_type_id) REFERENCES consumer_types (id)
);
INSERT INTO consumers VALUES('2026-11-20 19:00:17.757227','2026-11-20 19:00:17.903794',1,'00000000-0000-4000-8000-000000000050',1,1,2,1);
INSERT INTO consumers VALUES('2026-11-20 19:00:17.779332','2026-11-20 19:00:17.785514',2,'00000000-0000-4000-8000-000000000051',1,1,1,NULL);
CREATE INDEX allocations_resource_provider_class_used_idx ON allocations (resource_provider_id, resource_class_id, used);
CREATE INDEX allocations_resource_class_id_idx ON allocations (resource_class_id);
CREATE INDEX allocations_consumer_id_idx ON allocations (consumer_id);
CREATE INDEX inventories_resource_class_id_idx ON inventories (resource_class_id);
CREATE INDEX inventories_resource_provider_id_idx ON inventories (resource_provider_id);
CREATE INDEX inventories_resource_provider_resource_class_idx ON inventories (resource_provider_id, resource_class_id);
CREATE INDEX ix_placement_aggregates_uuid ON placement_aggregates (uuid);
CREATE INDEX resource_provider_aggregates_aggregate_id_idx ON resource_provider_aggregates (aggregate_id);
CREATE INDEX resource_providers_name_idx ON resource_providers (name);
CREATE INDEX resource_providers_parent_provider_id_idx ON resource_providers (parent_provider_id);
CREATE INDEX resource_providers_root_provider_id_idx ON resource_providers (root_provider_id);
CREATE INDEX resource_providers_uuid_idx ON resource_providers (uuid);
CREATE INDEX resource_provider_traits_resource_provider_trait_idx ON resource_provider_traits (resource_provider_id, trait_id);
CREATE INDEX consumers_project_id_uuid_idx ON consumers (project_id, uuid);
CREATE INDEX consumers_project_id_user_id_uuid_idx ON consumers (project_id, user_id, uuid);
CREATE INDEX consumers_consumer_type_id_idx ON consumers (consumer_type_id);
INSERT INTO traits VALUES('2026-11-20 19:00:17.635851',NULL,70,'HW_NIC_SRIOV');
INSERT INTO traits VALUES('2026-11-20 19:00:17.684427',NULL,346,'CUSTOM_PHYSNET');
