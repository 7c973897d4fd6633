/** The gateway to entities of MikroORM. @packageDocumentation */
export { gatewayOf, MikroOrmGateway, mikroOrmGateway } from './mikro-orm-gateway.js';
export type { MikroOrmGatewayOptions, Tenancy } from './mikro-orm-gateway.js';
export { rowSecurityStatements } from './row-level-security.js';
export type { TenantRole, TenantTable } from './row-level-security.js';
