import { type ToolCallContext, ToolField } from '@toolloop/core';
import type { RawToolDeclaration } from '@toolloop/core/catalog';
import { IsOptional, IsString, Matches, MaxLength } from 'class-validator';

/** The input of `approvals__withdraw`. */
export class WithdrawCallInput {
  @ToolField({ description: 'The id of what waits, as it stands in the result of its call.' })
  @Matches(/^[a-z]{3}_[0-9a-f]{32}$/)
  readonly id!: string;

  @ToolField({ description: 'The reason, in the words of the user.' })
  @IsOptional()
  @IsString()
  @MaxLength(500)
  readonly reason?: string;
}

/**
 * Lets a model withdraw, where its user tells it to, what an earlier run of the same conversation
 * asked and what still waits: an approval, a question, a call of a client. It is the user's act, so
 * it is refused once the run has read what others wrote; then the client withdraws it, with
 * `decision: 'withdraw'`.
 *
 * @example
 * ToolLoopModule.forRoot({
 *   model,
 *   tools: [rawTool(WithdrawCall)],
 *   policy: { allow: ['approvals__withdraw'] },
 * });
 */
export class WithdrawCall {
  static readonly shortName: string = 'withdraw_call';
  static readonly tool: RawToolDeclaration<WithdrawCallInput> = {
    id: 'approvals__withdraw',
    description:
      'Withdraws a call or a question of this conversation that still waits, so that it is never made or answered. Only where the user says so, never because it seems better.',
    effect: 'state_change',
    idempotent: true,
    labels: { reads: 'private', returns: 'trusted', egress: false },
    input: WithdrawCallInput,
    reveal: ['withdrawn'],
  };

  /**
   * Withdraws it, in the name of the run's actor.
   *
   * @throws ToolError where nothing of the kind waits in the conversation, and for a run that has
   *   read what others wrote
   */
  async call({ id, reason }: WithdrawCallInput, context: Pick<ToolCallContext, 'withdraw'>) {
    await context.withdraw(id, reason);
    return { withdrawn: id };
  }
}
