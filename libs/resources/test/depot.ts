import { Collection } from '@mikro-orm/core';
import * as M from '@mikro-orm/decorators/legacy';
import { ToolResource } from '@toolloop/resources';
import { Expose, Type } from 'class-transformer';
import * as T from 'typeorm';

/** A list as TypeORM or MikroORM has it. */
type Many<Row extends object> = Collection<Row> | Row[];

const TENANT = { type: 'varchar', length: 40 } as const;

/** A row that all tenants share, and that has no tenant. */
@T.Entity('countries')
@M.Entity({ tableName: 'countries' })
export class Country {
  @T.PrimaryColumn({ type: 'varchar', length: 2 })
  @M.PrimaryKey({ type: 'string', length: 2 })
  @Expose()
  code!: string;
  @T.Column({ type: 'varchar' }) @M.Property({ type: 'string' }) @Expose() name!: string;
}

/** A kind of goods that all tenants share, many to many. */
@T.Entity('hazards')
@M.Entity({ tableName: 'hazards' })
export class Hazard {
  @T.PrimaryGeneratedColumn()
  @M.PrimaryKey({ type: 'integer', autoincrement: true })
  @Expose()
  id!: number;
  @T.Column({ type: 'varchar' }) @M.Property({ type: 'string' }) @Expose() word!: string;
}

/** A place, whose key has the tenant in it. */
@T.Entity('sites')
@M.Entity({ tableName: 'sites' })
export class Site {
  @T.PrimaryColumn(TENANT)
  @M.PrimaryKey({ type: 'string', length: 40, hidden: true })
  tenant!: string;
  @T.PrimaryColumn({ type: 'varchar', length: 20 })
  @M.PrimaryKey({ type: 'string', length: 20 })
  @Expose()
  code!: string;
  @T.Column({ type: 'int' }) @M.Property({ type: 'integer' }) @Expose() size!: number;
  @T.ManyToOne(() => Country, { nullable: true })
  @T.JoinColumn({ name: 'country_code' })
  @M.ManyToOne({ entity: () => Country, nullable: true, fieldName: 'country_code' })
  @Expose()
  @Type(() => Country)
  country?: Country | null;
  @T.OneToMany(() => Crate, 'site')
  @M.OneToMany({ entity: () => Crate, mappedBy: 'site' })
  @Expose()
  @Type(() => Crate)
  crates!: Many<Crate>;
}

/** A box at a place, with which it shares the column of the tenant. */
@T.Entity('crates')
@M.Entity({ tableName: 'crates' })
export class Crate {
  @T.PrimaryColumn(TENANT)
  @M.PrimaryKey({ type: 'string', length: 40, hidden: true })
  tenant!: string;
  @T.PrimaryColumn({ type: 'int' }) @M.PrimaryKey({ type: 'integer' }) @Expose() number!: number;
  @T.ManyToOne(() => Site, 'crates', { nullable: true })
  @T.JoinColumn([
    { name: 'tenant', referencedColumnName: 'tenant' },
    { name: 'site_code', referencedColumnName: 'code' },
  ])
  @M.ManyToOne({
    entity: () => Site,
    nullable: true,
    joinColumns: ['tenant', 'site_code'],
    ownColumns: ['site_code'],
  })
  @Expose()
  @Type(() => Site)
  site?: Site | null;
  @T.ManyToMany(() => Hazard)
  @T.JoinTable({
    name: 'crates_hazards',
    joinColumns: [
      { name: 'crate_tenant', referencedColumnName: 'tenant' },
      { name: 'crate_number', referencedColumnName: 'number' },
    ],
    inverseJoinColumns: [{ name: 'hazard_id', referencedColumnName: 'id' }],
  })
  @M.ManyToMany({
    entity: () => Hazard,
    pivotTable: 'crates_hazards',
    joinColumns: ['crate_tenant', 'crate_number'],
    inverseJoinColumns: ['hazard_id'],
  })
  @Expose()
  @Type(() => Hazard)
  hazards!: Many<Hazard>;
}

/** The head of a hierarchy in one table. */
@T.Entity('vehicles')
@T.TableInheritance({ column: { type: 'varchar', name: 'kind' } })
@M.Entity({
  tableName: 'vehicles',
  discriminatorColumn: 'kind',
  discriminatorMap: { van: 'Van', truck: 'Truck' },
  abstract: true,
})
export class Vehicle {
  @T.PrimaryGeneratedColumn()
  @M.PrimaryKey({ type: 'integer', autoincrement: true })
  @Expose()
  id!: number;
  @T.Column(TENANT) @M.Property({ type: 'string', length: 40, hidden: true }) tenant!: string;
  @T.Column({ type: 'varchar' }) @M.Property({ type: 'string' }) @Expose() plate!: string;
}

@T.ChildEntity('van')
@M.Entity({ discriminatorValue: 'van' })
export class Van extends Vehicle {
  @T.Column({ type: 'int', nullable: true })
  @M.Property({ type: 'integer', nullable: true })
  @Expose()
  seats?: number | null;
}

@T.ChildEntity('truck')
@M.Entity({ discriminatorValue: 'truck' })
export class Truck extends Vehicle {
  @T.Column({ type: 'int', nullable: true })
  @M.Property({ type: 'integer', nullable: true })
  @Expose()
  tons?: number | null;
}

/** A way that a vehicle of one class makes. */
@T.Entity('trips')
@M.Entity({ tableName: 'trips' })
export class Trip {
  @T.PrimaryGeneratedColumn()
  @M.PrimaryKey({ type: 'integer', autoincrement: true })
  @Expose()
  id!: number;
  @T.Column(TENANT) @M.Property({ type: 'string', length: 40, hidden: true }) tenant!: string;
  @T.ManyToOne(() => Truck, { nullable: true })
  @T.JoinColumn({ name: 'truck_id' })
  @M.ManyToOne({ entity: () => Truck, nullable: true, fieldName: 'truck_id' })
  @Expose()
  @Type(() => Truck)
  truck?: Truck | null;
}

const ALL = ['read', 'create', 'update', 'destroy'] as const;

@ToolResource(Country, { namespace: 'countries', actions: ['read'], shared: true })
class CountryTools {}
@ToolResource(Hazard, { namespace: 'hazards', actions: ['read'], shared: true })
class HazardTools {}
@ToolResource(Site, { namespace: 'sites', actions: [...ALL] })
class SiteTools {}
@ToolResource(Crate, { namespace: 'crates', actions: [...ALL] })
class CrateTools {}
@ToolResource(Truck, { namespace: 'trucks', actions: [...ALL] })
class TruckTools {}
@ToolResource(Van, { namespace: 'vans', actions: [...ALL] })
class VanTools {}
@ToolResource(Trip, { namespace: 'trips', actions: [...ALL] })
class TripTools {}

export const DEPOT_ENTITIES = [Country, Hazard, Site, Crate, Vehicle, Van, Truck, Trip];
@ToolResource(Site, {
  namespace: 'sites',
  actions: { read: { relations: ['country'] }, create: true, update: true, destroy: true },
})
class SiteToolsByCountry {}
@ToolResource(Crate, {
  namespace: 'crates',
  actions: { read: { relations: [] }, create: true, update: true, destroy: true },
})
class CrateToolsAlone {}

const OTHER_TOOLS = [CountryTools, HazardTools, TruckTools, VanTools, TripTools];
export const DEPOT_TOOLS = [...OTHER_TOOLS, SiteTools, CrateTools];
/** Tools that follow no relation by a key of several columns. */
export const DEPOT_TOOLS_WITHOUT_PARTS = [...OTHER_TOOLS, SiteToolsByCountry, CrateToolsAlone];

/**
 * Both tenants have sites and crates of the same names. Trucks: 1 is acme's, 3 globex's; vans: 2
 * and 4.
 */
export const DEPOT_ROWS: readonly string[] = [
  `insert into countries (code, name) values ('ch', 'Helvetia'), ('de', 'Germania')`,
  `insert into hazards (word) values ('fire'), ('acid')`,
  ...['acme', 'globex'].flatMap((tenant, index) => [
    `insert into sites (tenant, code, size, country_code) values ('${tenant}', 'a', ${1 + index * 10}, 'ch'), ('${tenant}', 'b', ${2 + index * 10}, null)`,
    `insert into crates (tenant, number, site_code) values ('${tenant}', 1, 'a'), ('${tenant}', 2, 'a'), ('${tenant}', 3, null)`,
    `insert into vehicles (tenant, kind, plate, tons, seats) values ('${tenant}', 'truck', 'T ${tenant}', 7, null), ('${tenant}', 'van', 'V ${tenant}', null, 9)`,
  ]),
  `insert into crates_hazards (crate_tenant, crate_number, hazard_id) values ('acme', 1, 1), ('acme', 1, 2), ('acme', 2, 2), ('globex', 1, 2), ('globex', 3, 1)`,
  // The last leads to a van, and the last but one to a truck of another tenant.
  `insert into trips (tenant, truck_id) values ('acme', 1), ('acme', null), ('acme', 3), ('acme', 2)`,
];
