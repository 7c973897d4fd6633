/** The gateway to entities of MikroORM. @packageDocumentation */
export { gatewayOf, MikroOrmGateway, mikroOrmGateway } from './mikro-orm-gateway.js';
export type { MikroOrmGatewayOptions } from './mikro-orm-gateway.js';
