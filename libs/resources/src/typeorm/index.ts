/** The gateway to entities of TypeORM. @packageDocumentation */
export { gatewayOf, TypeOrmGateway, typeOrmGateway } from './typeorm-gateway.js';
export type { TypeOrmGatewayOptions } from './typeorm-gateway.js';
