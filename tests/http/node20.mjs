// The conformance tool imports `globSync` from `fs`, which Node.js has since 22; no server scenario calls it.
import { register } from "node:module";

const shim = `export * from "node:fs"; export const globSync = () => { throw new Error("needs Node.js 22"); };`;
const hooks = `
  const shim = ${JSON.stringify(`data:text/javascript,${encodeURIComponent(shim)}`)};
  export const resolve = (specifier, context, next) =>
    specifier === "fs" && context.parentURL?.endsWith("/conformance/dist/index.js")
      ? { url: shim, shortCircuit: true }
      : next(specifier, context);
`;
register(`data:text/javascript,${encodeURIComponent(hooks)}`);
