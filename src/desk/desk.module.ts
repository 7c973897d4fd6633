import { MikroOrmModule } from '@mikro-orm/nestjs';
import { PostgreSqlDriver } from '@mikro-orm/postgresql';
import { Module, type OnModuleInit } from '@nestjs/common';
import { Database } from '@toolloop/durable';
import { ResourceToolsModule } from '@toolloop/resources';
import { mikroOrmGateway } from '@toolloop/resources/mikro-orm';
import { Cart, Customer, Order, Product } from './entities.js';
import { migrate } from './migrations.js';

/**
 * The stored data of the order desk, on the database that keeps its runs: what a call changes is
 * committed together with the mark of the call.
 */
@Module({
  imports: [
    MikroOrmModule.forRootAsync({
      driver: PostgreSqlDriver,
      inject: [Database],
      useFactory: ({ connection }: Database) => ({
        driverOptions: connection,
        // has to be said; it is the database of the connection, which no other is to be created
        // beside
        dbName: 'desk',
        ensureDatabase: false,
        entities: [Customer, Product, Order, Cart],
        registerRequestContext: false, // each call of a tool has an entity manager of its own
      }),
    }),
    ResourceToolsModule.forRoot({
      gateway: mikroOrmGateway({ tenancy: { property: 'tenant', role: 'toolloop_desk' } }),
    }),
  ],
})
export class DeskModule implements OnModuleInit {
  constructor(private readonly database: Database) {}

  async onModuleInit(): Promise<void> {
    await migrate(this.database);
  }
}
