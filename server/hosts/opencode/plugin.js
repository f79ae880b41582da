// swarm-memory: written by `swarm-memory install --agent opencode`; changes in it are lost.
import { spawn } from "node:child_process"

const COMMAND = ["swarm-memory", "hook", "opencode"]
const LIMIT_MS = 12000

/** Run a hook and return the context that it answers with: empty whatever goes wrong, and within the limit. */
function ask(verb, event) {
  return new Promise((resolve) => {
    let answer = ""
    const child = spawn(COMMAND[0], [...COMMAND.slice(1), verb], { cwd: event.cwd, stdio: ["pipe", "pipe", "ignore"] })
    const timer = setTimeout(() => { child.kill(); resolve("") }, LIMIT_MS)
    const end = () => {
      clearTimeout(timer)
      try { resolve(JSON.parse(answer).additionalContext || "") } catch { resolve("") }
    }
    child.on("error", end)
    child.on("close", end)
    child.stdin.on("error", () => {})
    child.stdout.on("data", (data) => { answer += data })
    child.stdin.end(JSON.stringify(event))
  })
}

const textOf = (parts) =>
  (Array.isArray(parts) ? parts : []).filter((part) => part.type === "text" && !part.synthetic).map((part) => part.text).join("\n")

/** The plugin for OpenCode 1. */
async function server({ directory }) {
  const fresh = new Set(), used = new Set(), subagents = new Set()
  const say = (verb, session_id, more) => ask(verb, { session_id, cwd: directory, ...more })
  return {
    event: async ({ event }) => {
      const { info, sessionID } = event.properties || {}
      if (event.type === "session.created" && info) (info.parentID ? subagents : fresh).add(info.id)
      if (event.type === "session.idle" && used.has(sessionID)) await say("stop", sessionID)
    },
    "chat.message": async ({ sessionID }, { message, parts }) => {
      const prompt = textOf(parts)
      if (!prompt.trim() || subagents.has(sessionID)) return
      const notes = [fresh.delete(sessionID) ? await say("session-start", sessionID, { source: "startup" }) : ""]
      notes.push(await say("prompt", sessionID, { prompt }))
      used.add(sessionID)
      const text = notes.filter(Boolean).join("\n\n")
      const last = parts[parts.length - 1]
      if (text) parts.push({ id: `${last.id}z`, sessionID, messageID: message.id, type: "text", text, synthetic: true })
    },
    "tool.execute.after": async ({ tool, sessionID, args }, output) => {
      const code = output.metadata && output.metadata.exit
      if (tool !== "bash" || !code || !used.has(sessionID)) return
      const error = `Exit code ${code}\n${output.output}`
      const notes = await say("tool-failure", sessionID, { tool_name: tool, tool_input: args, error })
      if (notes) output.output += `\n\n${notes}`
    },
    dispose: async () => {
      for (const sessionID of used) await say("session-end", sessionID)
    },
  }
}

/** The plugin for OpenCode 2: notes for each prompt, before it is sent. */
async function setup(ctx) {
  const asked = new Map()
  await ctx.session.hook("context", async (event) => {
    const last = event.messages.filter((message) => message.role === "user").pop()
    const prompt = last ? textOf(last.content) : ""
    if (!prompt.trim() || (event.kind && event.kind !== "primary")) return
    const key = `${event.sessionID} ${prompt}`
    if (!asked.has(key)) asked.set(key, ask("prompt", { session_id: event.sessionID, cwd: process.cwd(), prompt }))
    const text = await asked.get(key)
    if (text) event.system.push({ type: "text", text })
  })
}

export default { id: "swarm-memory", server, setup }
