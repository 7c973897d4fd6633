import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import {
  type CanActivate,
  type ExecutionContext,
  ForbiddenException,
  Injectable,
  Scope,
  SetMetadata,
  type Type,
  UseGuards,
} from '@nestjs/common';
import { APP_GUARD, Reflector } from '@nestjs/core';
import type { JsonObject } from '@toolloop/core';
import { ToolResource } from '@toolloop/resources';
import { Order, Shop } from './shop.js';
import type { Storing } from './shop-storage.js';

const ACTIONS = {
  read: true,
  create: { accept: ['number', 'total'] },
  update: { accept: ['note'] },
  destroy: true,
} as const;

const CALLS: readonly (readonly [action: string, args: JsonObject])[] = [
  ['read', {}],
  ['create', { input: { number: 'o-7', total: '1' } }],
  ['update', { id: 1, input: { note: 'seen' } }],
  ['destroy', { id: 1 }],
];

class Refusing implements CanActivate {
  canActivate(): boolean {
    return false;
  }
}

@Injectable()
class Provided extends Refusing {}
@Injectable({ scope: Scope.REQUEST })
class OfRequest extends Refusing {}
@Injectable({ scope: Scope.TRANSIENT })
class Transient extends Refusing {}

/** Lets in whom the roles of the class let in, as guards of applications do. */
@Injectable()
class RolesGuard implements CanActivate {
  constructor(private readonly reflector: Reflector) {}

  canActivate(context: ExecutionContext): boolean {
    const roles = this.reflector.getAllAndOverride<readonly string[] | undefined>('roles', [
      context.getHandler(),
      context.getClass(),
    ]);
    if (roles) throw new ForbiddenException(`Only for ${roles.join()}.`);
    return true;
  }
}

/** A resource whose class carries a decorator. */
function guarded(decorator: ClassDecorator): Type {
  @decorator
  @ToolResource(Order, { namespace: 'orders', actions: ACTIONS })
  class OrderTools {}
  return OrderTools;
}

/** Shows that the guards of a resource's class hold for each of its actions. */
export function keepsClassGuards(storing: Storing): void {
  describe.each<[guard: string, decorator: ClassDecorator]>([
    ['an instance', UseGuards(new Refusing())],
    ['a class', UseGuards(Provided)],
    ['a class of request scope', UseGuards(OfRequest)],
    ['a transient class', UseGuards(Transient)],
    ['a global guard that reads the roles of the class', SetMetadata('roles', ['clerk'])],
  ])('a guard of the class (%s)', (_guard, decorator) => {
    let shop: Shop;
    beforeAll(async () => {
      shop = await Shop.start({
        storing,
        resources: [guarded(decorator)],
        providers: [{ provide: APP_GUARD, useClass: RolesGuard }],
      });
    });
    afterAll(() => shop.close());

    it.each(CALLS)('keeps a call out of the action %s', async (action, args) => {
      expect(await shop.error(`orders__${action}`, args)).toMatchObject({ code: 'forbidden' });
    });
  });
}
