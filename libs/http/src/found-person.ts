import { NotFoundException } from '@nestjs/common';
import { Operators, RunOpener } from '@toolloop/core/internal';
import type { OperatorAction } from '@toolloop/core/policy';
import type { Caller } from './http-options.js';

/**
 * Finds a person of an operator's tenant. Someone who may not look learns nothing of who there is.
 *
 * @throws {OperatorError} Where the operator lacks the permission.
 * @throws {NotFoundException} Where there is no one of this id.
 */
export async function findPerson(
  actorId: string,
  { operator, action }: { readonly operator: Caller; readonly action: OperatorAction },
  { operators, opener }: { readonly operators: Operators; readonly opener: RunOpener },
): Promise<Caller> {
  if (!operators.may(operator, action))
    await operators.use(operator, action, { details: { actorId: actorId.slice(0, 256) } });
  const actor = await opener.directory.find(actorId, operator.tenant);
  if (actor !== undefined) return { actor, tenant: operator.tenant };
  throw new NotFoundException({
    code: 'unknown_actor',
    message: `No actor of this tenant has the id ${JSON.stringify(actorId)}.`,
  });
}
