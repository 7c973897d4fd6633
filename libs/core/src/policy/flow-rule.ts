import type { FlowLevel, PolicyCall, PolicySubject } from '../protocol/policy.js';
import type { Ruling } from './grants.js';
import { isOfSaidAddresses, isTraced, isWhollyTraced } from './provenance.js';

/** Whether what the run has read so far lets this call happen without a person's yes. Undefined where the flow of information says nothing. */
export function flowRuling(level: FlowLevel, subject: PolicySubject, call: PolicyCall): Ruling | undefined {
  switch (level) {
    case 'off':
      return undefined;
    case 'effect':
      return subject.effect === 'read_only' ? undefined : ask(level, `A tool with the effect ${subject.effect} needs a person's approval.`);
    case 'legs':
      return closesThirdLeg(subject, call) ? ask(level, LEGS) : undefined;
    case 'taint':
      return taintRuling(level, subject, call);
    case 'provenance':
      return provenanceRuling(level, subject, call);
  }
}

const LEGS = 'The run has read private data and untrusted content, and this tool can carry data out.';

/** The lethal trifecta: private data, untrusted content, and a way out. A read of an address that the user wrote carries nothing out but that address. */
function closesThirdLeg(subject: PolicySubject, call: PolicyCall): boolean {
  const { integrity, confidentiality } = call.flow;
  const { egress, accepts } = subject.labels;
  if (!egress || accepts?.private || integrity === 'trusted' || confidentiality === 'public') return false;
  return subject.effect !== 'read_only' || !isOfSaidAddresses(subject, call);
}

function taintRuling(level: FlowLevel, subject: PolicySubject, call: PolicyCall): Ruling | undefined {
  const { effect, labels } = subject;
  if (closesThirdLeg(subject, call)) return ask(level, LEGS);
  if (effect === 'read_only' || labels.accepts?.untrusted || call.flow.integrity === 'trusted') return undefined;
  return ask(level, 'The run has read untrusted content, and this tool changes things.');
}

/** What decides may stem from the user and the rest from anywhere, as long as no private data can leave in the rest. */
function provenanceRuling(level: FlowLevel, subject: PolicySubject, call: PolicyCall): Ruling | undefined {
  if (!isTraced(subject, call)) return taintRuling(level, subject, call);
  return closesThirdLeg(subject, call) && !isWhollyTraced(subject, call) ? ask(level, LEGS) : undefined;
}

function ask(level: FlowLevel, reason: string): Ruling {
  return { kind: 'require_approval', rule: `flow: ${level}`, reason };
}
