/** Entities of a database as tools. @packageDocumentation */
export { ResourceGateway, ResourceWriteError } from './resource-gateway.js';
export type {
  ComparisonOperator,
  Condition,
  EntityModel,
  FieldKind,
  LinkQuery,
  ResourceAggregate,
  ResourceField,
  ResourceOrder,
  ResourceQuery,
  ResourceRelation,
  ResourceScope,
  ResourceSession,
  ResourceValue,
} from './resource-gateway.js';
export { rowSecurityStatements } from './row-level-security.js';
export type { TableEnd, TenantRole, TenantTable } from './row-level-security.js';
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
