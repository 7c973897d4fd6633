import type { Type } from '@nestjs/common';
import type { InstanceWrapper } from '@nestjs/core/injector/instance-wrapper.js';
import type { Finding } from '../protocol/errors.js';
import { LoopEventSink } from '../protocol/loop-event.js';
import { ToolInterceptor } from '../protocol/tool-interceptor.js';
import { ToolSource } from '../protocol/tool.js';
import { isClass, isSingleton } from './provider-classes.js';

/** Ports of which every provider is asked: an interceptor that is left out without a word would be a hole. */
const PORTS = { ToolSource, ToolInterceptor, LoopEventSink };

/** A port that is made per request, or anew for everybody, would never be asked. */
export function portFindings(wrapper: InstanceWrapper): Finding[] {
  const { metatype } = wrapper;
  if (isSingleton(wrapper) || !isClass(metatype)) return [];
  return Object.entries(PORTS)
    .filter(([, port]) => metatype.prototype instanceof port)
    .map(([name]) => ({
      at: metatype.name,
      problem: `It is a ${name}, which the loop uses outside of any request, but it is not a singleton.`,
      remedy: 'Remove its scope, and that of its dependencies; read the actor from the context of the call.',
    }));
}

/** Tools are called outside any request, and controllers are no providers. */
export function controllerFinding(type: Type): Finding {
  return {
    at: type.name,
    problem: 'It is a controller, and tools are found among providers.',
    remedy: 'Move its tools to a class of their own that is in `providers`.',
  };
}
