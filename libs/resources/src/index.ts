/** Entities of a database as tools. @packageDocumentation */
export { ResourceGateway } from './resource-gateway.js';
export { ResourceWriteError } from './resource-write-error.js';
export type {
  ComparisonOperator,
  Condition,
  LinkQuery,
  ResourceAggregate,
  ResourceOrder,
  ResourceQuery,
  ResourceValue,
} from './resource-query.js';
export type { EntityModel, FieldKind, ResourceField, ResourceRelation } from './entity-model.js';
export type { ResourceScope, ResourceSession } from './resource-gateway.js';
export type { TableEnd, TenantTable } from './row-level-security.js';
export { SqlResourceGateway } from './sql-gateway.js';
export type { SqlGatewayOptions, Tenancy } from './sql-gateway.js';
export { ResourcePolicy } from './resource-policy.js';
export type { FieldRules, ResourceWrite } from './resource-policy.js';
export { ResourceToolsModule, rowSecurityMigration } from './resource-tools.module.js';
export type { ResourceFeatureOptions, ResourceToolsOptions } from './resource-tools.module.js';
export { ToolResource } from './tool-resource.decorator.js';
export type {
  ActionName,
  ActionParameter,
  CreateOptions,
  DestroyOptions,
  ReadOptions,
  ResourceActions,
  ToolResourceOptions,
  UpdateOptions,
} from './tool-resource.decorator.js';
