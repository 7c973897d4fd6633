export { isSignedHead } from './audit-entry.js';
export { readAuditLines } from './audit-lines.js';
export { AuditError } from '../../contracts/audit.js';
export type {
  AuditEvent,
  AuditEvidence,
  AuditStamp,
  AuditSubject,
  SignedAuditHead,
} from '../../contracts/audit.js';
export type { AuditKey, AuditKeys, AuditOptions } from './audit-options.js';
export { AuditTrail } from './audit-trail.js';
export type { AuditDraft, AuditedArguments } from './audit-trail.js';
export { verifyAudit } from './audit-verification.js';
export type {
  AuditBreak,
  AuditVerification,
  AuditVerificationOptions,
} from './audit-verification.js';
