import { AsyncLocalStorage } from 'node:async_hooks';
import { Injectable } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { IsString } from 'class-validator';
import { LlmTool, ToolInput, ToolLoopModule, ToolLoopService, ToolProvider } from '@toolloop/core';
import { ToolRunner } from '@toolloop/core/internal';
import { ScriptedModel, call, calls, text } from '@toolloop/testing';
import type { CallTrace, Entered } from './call-trace.js';
import { HOOK } from './instrumented.js';

class SearchInput {
  @IsString() name!: string;
}

@Injectable()
@ToolProvider({ namespace: 'crm' })
class CustomerTools {
  @LlmTool({ description: 'Find a customer by name.', effect: 'read_only', reveal: 'all' })
  search(@ToolInput() input: SearchInput): string {
    return `${input.name} is customer c-123.`;
  }
}

/**
 * Runs one real application with one read tool, which the model calls once in each of two runs, and
 * records every function of core that the second one enters.
 */
export async function traceRun(): Promise<CallTrace> {
  const turns = [calls(call('crm__search', { name: 'Jane' })), text('She is customer c-123.')];
  const model = new ScriptedModel([...turns, ...turns]);
  const moduleRef = await Test.createTestingModule({
    imports: [ToolLoopModule.forRoot({ model, policy: { allow: ['crm__*'] } })],
    providers: [CustomerTools],
  }).compile();
  await moduleRef.init();
  const loop = moduleRef.get(ToolLoopService);
  const request = { prompt: 'Who is Jane?', actor: { id: 'a' }, tenant: 'acme' };
  await loop.run(request); // the first call of a tool compiles what all later calls use
  const { run, exec } = recordCalls();
  const result = await loop.run(request);
  const traced: CallTrace = { run: [...run], exec: [...exec] };
  model.assertComplete();
  if (result.toolCalls[0]?.status !== 'succeeded')
    throw new Error('The traced call did not succeed.');
  await moduleRef.close();
  return traced;
}

/**
 * What is entered within the asynchronous context of `ToolRunner.exec` belongs to the call,
 * whatever else runs meanwhile.
 */
function recordCalls(): { readonly run: readonly Entered[]; readonly exec: readonly Entered[] } {
  const run: Entered[] = [];
  const exec: Entered[] = [];
  const insideExec = new AsyncLocalStorage<true>();
  const original = Reflect.get(ToolRunner.prototype, 'exec');
  ToolRunner.prototype.exec = function traced(...given) {
    return insideExec.run(true, () => original.apply(this, given));
  };
  const entered = (file: string, name: string): void => {
    run.push({ file, name });
    if (insideExec.getStore()) exec.push({ file, name });
  };
  Object.assign(globalThis, { [HOOK]: entered });
  return { run, exec };
}
