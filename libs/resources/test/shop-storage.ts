import type { DynamicModule, FactoryProvider, Type } from '@nestjs/common';
import type { ToolCallContext } from '@toolloop/core';
import type { SqlGatewayOptions, SqlResourceGateway } from '@toolloop/resources';

export type Values = readonly (string | number | null)[];

/** The database of a shop, as its owner and as a careless tool of the application ask it. */
export abstract class ShopStorage {
  /**
   * Asks as the user of the connection, for whom no row level security holds in the tests. Values
   * stand at `?`.
   */
  abstract sql<Row>(statement: string, values?: Values): Promise<Row[]>;

  /** Asks within the transaction of a tool. */
  abstract sqlWithin(context: ToolCallContext, statement: string): Promise<readonly unknown[]>;

  /** Writes to a row that was not looked up, within the transaction of a tool. */
  abstract overwrite(context: ToolCallContext, id: number): Promise<void>;

  /** Inserts rows of any tenant, and resolves to them with their keys. */
  abstract insert<Row extends object>(
    entity: Type<Row>,
    rows: readonly object[],
  ): Promise<readonly Row[]>;

  /** Removes all rows, and begins to count anew. */
  abstract clear(): Promise<void>;
}

/** An ORM on an empty database of its own. */
export interface OpenedStorage {
  readonly imports: readonly (DynamicModule | Promise<DynamicModule>)[];
  readonly provider: Type<ShopStorage>;
  readonly gateway: (
    options: Omit<SqlGatewayOptions<unknown>, 'prepare'>,
  ) => FactoryProvider<SqlResourceGateway<unknown>>;
}

/** Opens an ORM on an empty database of its own. */
export type Storing = (entities: readonly Type[]) => Promise<OpenedStorage>;
